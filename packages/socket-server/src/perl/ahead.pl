# Answering ahead, joined to server.pl when it is sent: docs/protocol.md has the frames. What is answered, and with what,
# is the host's table; nothing here knows what a line means.

# Bytes of a line, and of the lines that were answered and have not gone to the host.
use constant { LINE_MAX => 1_000, KEPT_MAX => 8_192 };
# Of an entry. LATER: not as the first command of a session.
use constant { ENTRY => 0, ANSWER => 1, LATER => 2, PATTERN => 3 };

# $fits is one pattern for the whole table: most lines that wait fit none of it.
my ($greeting, $fits, @table);

sub set_table {
    ($greeting, my @fields) = unpack '(N/a)*', $_[0];
    @table = ();
    while (my ($id, $later, $pattern, $answer) = splice @fields, 0, 4) {
        push @table, [$id, $answer, $later, qr/$pattern/];
    }
    my $any = join '|', map { $_->[PATTERN] } @table;
    $fits = length $any ? qr/$any/ : qr/(?!)/;
}

# Greets a client if there is a table; returns what OPEN says of it.
sub greet {
    my ($stream, $type) = @_;
    return '' if !$greeting || $type ne 'gpg-agent' || $unanswered > 1;
    # turn: nothing is owed to the client. sent: bytes that went to the host. kept, ids, begun: lines that were answered,
    # their entries, and the beginning of the next. once: answers that serve once, by their lines.
    $stream->[AHEAD] = {turn => 1, first => 1, sent => 0, kept => '', ids => '', begun => '', once => {}};
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

# Takes what was read behind $at + HEADER, and returns true, while it is the client's turn.
sub read_ahead {
    my ($stream, $at, $read) = @_;
    my $ahead = $stream->[AHEAD];
    if (!$ahead->{turn}) { $ahead->{sent} += $read; return 0 }
    my $text = $ahead->{begun} . substr $out, $at + HEADER, $read;
    substr($out, $at) = '';
    my $may_answer = !length $stream->[QUEUE] && $unanswered < 2;    # nothing while the host's answer is late
    my ($answers, $from, $lf) = ('', 0);
    while (($lf = index $text, "\n", $from) >= 0) {
        my $line = substr $text, $from, $lf - $from;
        my $entry = $may_answer && length $ahead->{kept} < KEPT_MAX && find_entry($ahead, $line);
        $ahead->{first} = 0;
        last if !$entry;
        $answers .= $entry->[ANSWER];
        $ahead->{ids} .= pack 'N', $entry->[ENTRY];
        $ahead->{kept} .= "$line\n";
        $from = $lf + 1;
    }
    tell_client($stream, $answers) if length $answers;
    $ahead->{begun} = substr $text, $from;
    pass_kept($stream) if $lf >= 0 || length $ahead->{begun} > LINE_MAX;
    return 1;
}

sub find_entry {
    my ($ahead, $line) = @_;
    return if length $line > LINE_MAX;
    my $once = delete $ahead->{once}{$line};
    return $once if $once;
    return if $line !~ $fits;
    for my $entry (@table) { return $entry if $line =~ $entry->[PATTERN] && !($ahead->{first} && $entry->[LATER]) }
    return;
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
