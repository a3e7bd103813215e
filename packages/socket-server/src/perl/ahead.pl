# Answering ahead, joined to server.pl when it is sent: docs/protocol.md has the frames. What is answered, and with what,
# is the host's table; nothing here knows what a line or a message means.

# Bytes of a line, and of what was answered and has not gone to the host; a message has as many.
use constant { LINE_MAX => 1_000, KEPT_MAX => 8_192 };
# Of an entry. LATER: not as the first command of a session.
use constant { ENTRY => 0, ANSWER => 1, LATER => 2, PATTERN => 3 };

# Entries by the first word of the lines that they fit. @bind is for clients of the ssh-agent: an entry, whose PATTERN
# is how a message begins behind its length.
my ($greeting, %table, @bind);

sub set_table {
    my ($place, $payload) = @_;    # 0: of the gpg-agent, 1: of the ssh-agent
    if ($place) { @bind = (unpack '(N/a)*', $payload)[0, 2, 3, 1]; @bind = () if !defined $bind[PATTERN]; return }
    ($greeting, my @fields) = unpack '(N/a)*', $payload;
    %table = ();
    while (my ($id, $later, $pattern, $answer) = splice @fields, 0, 4) {
        push @{$table{$pattern =~ /^\^(\w+)/ && $1}}, [$id, $answer, $later, qr/$pattern/];
    }
}

# Greets a client if there is a table; returns what OPEN says of it.
sub greet {
    my ($stream, $type) = @_;
    my $ssh = $type eq 'ssh-agent';
    return '' if !($ssh ? @bind : $type eq 'gpg-agent' && $greeting) || $unanswered > 1;
    # turn: nothing is owed to the client. sent: bytes that went to the host. kept, ids, begun: what was answered, the
    # entries, and the beginning of the next. once: answers that serve once, by their lines. ssh: messages, not lines.
    $stream->[AHEAD] = {turn => 1, first => 1, sent => 0, kept => '', ids => '', begun => '', once => {}, ssh => $ssh};
    return '' if $ssh;
    tell_client($stream, $greeting);
    return ' greeted';
}

sub tell_client {
    my ($stream, $text) = @_;
    my $n = syswrite($stream->[HANDLE], $text) || 0;
    $stream->[LAST] = "\n";
    return if $n == length $text;
    # An error is met again when the queue is written. The host has not sent these bytes, and gets no credit for them.
    $stream->[QUEUE] .= substr $text, $n;
    $stream->[TAKEN] -= length($text) - $n;
    watch_write($stream->[FD], sub { client_writable($stream) });
}

# Bytes of the line or message at $from of a text, if it is whole, or too long a message; else 0.
sub whole {
    my ($ssh, $from) = @_[0, 2];
    if (!$ssh) { my $lf = index $_[1], "\n", $from; return $lf < 0 ? 0 : $lf + 1 - $from }
    my $left = length($_[1]) - $from;
    my $size = $left < 4 ? 0 : 4 + unpack 'N', substr $_[1], $from, 4;
    return $size <= $left || $size > KEPT_MAX ? $size : 0;
}

# Takes what was read behind $at + HEADER, and returns true, while it is the client's turn.
sub read_ahead {
    my ($stream, $at, $read) = @_;
    my $ahead = $stream->[AHEAD];
    if (!$ahead->{turn}) { $ahead->{sent} += $read; return 0 }
    my $text = $ahead->{begun} . substr $out, $at + HEADER, $read;
    substr($out, $at) = '';
    my $may_answer = !length $stream->[QUEUE] && $unanswered < 2;    # nothing while the host's answer is late
    my ($answers, $from, $size) = ('', 0);
    while ($size = whole($ahead->{ssh}, $text, $from)) {
        my $one = substr $text, $from, $size;
        my $entry = $may_answer && length $ahead->{kept} < KEPT_MAX
            && ($ahead->{ssh} ? find_bind($one) : find_entry($ahead, substr $one, 0, -1));
        $ahead->{first} = 0;
        last if !$entry;
        $answers .= $entry->[ANSWER];
        $ahead->{ids} .= pack 'N', $entry->[ENTRY];
        $ahead->{kept} .= $one;
        $from += $size;
    }
    tell_client($stream, $answers) if length $answers;
    $ahead->{begun} = substr $text, $from;
    pass_kept($stream) if $size || !$ahead->{ssh} && length $ahead->{begun} > LINE_MAX;
    return 1;
}

sub find_entry {
    my ($ahead, $line) = @_;
    return if length $line > LINE_MAX;
    my $once = delete $ahead->{once}{$line};
    return $once if $once;
    for my $entry (@{$line =~ /^(\w+)/ && $table{$1} || []}) {
        return $entry if $line =~ $entry->[PATTERN] && !($ahead->{first} && $entry->[LATER]);
    }
    return;
}

sub find_bind {
    my ($message) = @_;
    return @bind && length $message <= KEPT_MAX && index($message, $bind[PATTERN], 4) == 4 && \@bind;
}

# Sends what was kept to the host, from where everything comes until its next TURN.
sub pass_kept {
    my ($stream) = @_;
    my $ahead = $stream->[AHEAD];
    return if !$ahead || !length(my $bytes = $ahead->{kept} . $ahead->{begun});
    frame(TOLD, $stream->[ID], $ahead->{ids}) if length $ahead->{ids};
    frame(DATA, $stream->[ID], $bytes);
    $ahead->{sent} += length $bytes;
    @$ahead{qw(turn kept ids begun)} = (0, '', '', '');
}

# It is the client's turn if the host has answered everything that was sent.
sub take_turn {
    my ($ahead, $payload) = @_;
    my ($count, @fields) = (unpack('N', $payload), unpack '(N/a)*', substr $payload, 4);
    while (my ($id, $line, $answer) = splice @fields, 0, 3) { $ahead->{once}{$line} = [$id, $answer] }
    $ahead->{turn} = 1 if $count == $ahead->{sent} % 4_294_967_296;
}
