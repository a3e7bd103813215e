# Answering ahead, joined to server.pl when it is sent: docs/protocol.md has the frames. What is answered, and with what,
# is the host's table; nothing here knows what a line or a message means.

# Bytes of a line with its end, and of what was answered and has not gone to the host; a message has as many.
use constant { LINE_MAX => 1_001, KEPT_MAX => 8_192, FOUND_MAX => 64 };
# Of an entry: its id as the host gets it. LATER: not as the first command of a session.
use constant { ENTRY => 0, ANSWER => 1, LATER => 2, PATTERN => 3 };
# Of a client. IS_TURN: nothing is owed to it. FIRST: no command has come. SENT: bytes that went to the host. KEPT, IDS,
# BEGUN: what was answered, the entries, and the beginning of the next. ONCE: answers that serve once, by their lines.
# SSH: messages, not lines.
use constant { IS_TURN => 0, FIRST => 1, SENT => 2, KEPT => 3, IDS => 4, BEGUN => 5, ONCE => 6, SSH => 7 };

# Entries by their line, where they fit one alone; the others by how the lines begin that they fit: the first word, and
# the name or number behind it. %found has the lines that these fitted last: most come again. @bind is for clients of the
# ssh-agent: an entry, whose PATTERN is how a message begins behind its length.
my ($greeting, %exact, %table, %found, @bind);

sub set_table {
    my ($place, $payload) = @_;    # 0: of the gpg-agent, 1: of the ssh-agent
    if ($place) {
        my ($id, @rest) = (unpack '(N/a)*', $payload)[0, 2, 3, 1];
        @bind = defined $rest[-1] ? (pack('N', $id), @rest) : ();
        return;
    }
    ($greeting, my @fields) = unpack '(N/a)*', $payload;
    %exact = %table = %found = ();
    while (my ($id, $later, $pattern, $answer) = splice @fields, 0, 4) {
        my $entry = [pack('N', $id), $answer, $later, qr/$pattern/];
        if ($pattern =~ /^\^([\w =-]+)\$\z/) { $exact{"$1\n"} = $entry }
        else { push @{$table{$pattern =~ /^\^(\w+(?: [\w-]+=| \d+ )?)/ && $1}}, $entry }
    }
}

# Greets a client if there is a table, behind OPEN, which says so: the host has something to do meanwhile.
sub greet {
    my ($stream, $type) = @_;
    my $ssh = $type eq 'ssh-agent';
    my $is_on = ($ssh ? @bind : $type eq 'gpg-agent' && $greeting) && $unanswered < 2;
    $stream->[AHEAD] = [1, 1, 0, '', '', '', {}, $ssh] if $is_on;
    frame(OPEN, $stream->[ID], $is_on && !$ssh ? "$type greeted" : $type);
    return if !$is_on || $ssh;
    flush();
    tell_client($stream, $greeting);
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

# Bytes of the message at $from of a text, if it is whole or too long; else 0.
sub whole_message {
    my $from = $_[1];
    my $left = length($_[0]) - $from;
    my $size = $left < 4 ? 0 : 4 + unpack 'N', substr $_[0], $from, 4;
    return $size <= $left || $size > KEPT_MAX ? $size : 0;
}

# Takes what was read behind $at + HEADER, and returns true, while it is the client's turn. A client waits for each
# answer: few steps for a line are worth more here than few lines.
sub read_ahead {
    my ($stream, $at, $read) = @_;
    my $ahead = $stream->[AHEAD];
    if (!$ahead->[IS_TURN]) { $ahead->[SENT] += $read; return 0 }
    my $text = substr $out, $at, HEADER + $read, '';
    substr $text, 0, HEADER, $ahead->[BEGUN];
    my $may_answer = !length $stream->[QUEUE] && $unanswered < 2;    # nothing while the host's answer is late
    my ($ssh, $answers, $from, $size) = ($ahead->[SSH], '', 0);
    # Nearly always it is one line that came before, too, and nothing newer was sent along for it.
    my $known = $may_answer && !$ssh && length $ahead->[KEPT] < KEPT_MAX && ($exact{$text} || $found{$text});
    if ($known && !($ahead->[FIRST] && $known->[LATER]) && !$ahead->[ONCE]{$text}) {
        $ahead->[IDS] .= $known->[ENTRY];
        $ahead->[KEPT] .= $text;
        @$ahead[FIRST, BEGUN] = (0, '');
        tell_client($stream, $known->[ANSWER]);
        return 1;
    }
    while (($size = $ssh ? whole_message($text, $from) : index($text, "\n", $from) + 1 - $from) > 0) {
        my $one = substr $text, $from, $size;
        my $entry = $may_answer && length $ahead->[KEPT] < KEPT_MAX
            && ($ssh ? find_bind($one) : find_entry($ahead, $one));
        $ahead->[FIRST] = 0;
        last if !$entry;
        $answers .= $entry->[ANSWER];
        $ahead->[IDS] .= $entry->[ENTRY];
        $ahead->[KEPT] .= $one;
        $from += $size;
    }
    tell_client($stream, $answers) if length $answers;
    $ahead->[BEGUN] = substr $text, $from;
    pass_kept($stream) if $size > 0 || !$ssh && length $ahead->[BEGUN] >= LINE_MAX;
    return 1;
}

sub find_entry {
    my ($ahead, $line) = @_;
    return if length $line > LINE_MAX;
    my $entry = delete $ahead->[ONCE]{$line} || $exact{$line};
    return $ahead->[FIRST] && $entry->[LATER] ? undef : $entry if $entry;
    return if $line !~ /^(\w+)( [\w-]+=| \d+ )?/;
    for $entry ($2 ? @{$table{$1 . $2} || []} : (), @{$table{$1} || []}) {
        next if $line !~ $entry->[PATTERN] || $ahead->[FIRST] && $entry->[LATER];
        %found = () if keys %found >= FOUND_MAX;
        return $found{$line} = $entry;
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
    return if !$ahead || !length(my $bytes = $ahead->[KEPT] . $ahead->[BEGUN]);
    frame(TOLD, $stream->[ID], $ahead->[IDS]) if length $ahead->[IDS];
    frame(DATA, $stream->[ID], $bytes);
    $ahead->[SENT] += length $bytes;
    @$ahead[IS_TURN, KEPT, IDS, BEGUN] = (0, '', '', '');
}

# It is the client's turn if the host has answered everything that was sent.
sub take_turn {
    my ($ahead, $payload) = @_;
    my ($count, @fields) = (unpack('N', $payload), unpack '(N/a)*', substr $payload, 4);
    while (my ($id, $line, $answer) = splice @fields, 0, 3) {
        $ahead->[ONCE]{"$line\n"} = [pack('N', $id), $answer, 0];
    }
    $ahead->[IS_TURN] = 1 if $count == $ahead->[SENT] % 4_294_967_296;
}
