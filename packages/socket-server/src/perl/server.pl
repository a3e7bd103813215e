# The socket server for targets that have Perl 5. perl-base is enough: no JSON::PP, no Time::HiRes. The loader of
# launch.ts evaluates this text with the settings in $main::CONFIG and frames on stdin and stdout. main.ts behaves
# the same. What is done is decided on the host: docs/protocol.md has the frames and the operations.
use strict;
use warnings;
use Errno qw(EAGAIN ECONNABORTED EEXIST EINTR EINVAL EMFILE EMSGSIZE ENAMETOOLONG ENFILE ENOBUFS ENOENT ENOSYS);
use Fcntl qw(F_GETFL F_SETFL O_NONBLOCK O_RDONLY O_RDWR);
use Socket qw(AF_UNIX SOCK_STREAM pack_sockaddr_un);

# Frame: uint32 length of what follows, uint8 type, uint32 stream, payload.
use constant { VERSION => 4, HEADER => 9, LENGTH_MIN => 5, LENGTH_MAX => 1_048_576 };
use constant { DATA => 1, OPEN => 2, CLOSE => 3, PUBKEY => 4, READY => 5, ERROR => 6, WINDOW => 7, EOF => 8 };
use constant { PING => 9, PONG => 10, CALL => 11, RESULT => 12, CHANGED => 13, TABLE => 14, TOLD => 15, TURN => 16 };
# Bytes: credit at the start, and delivered before it is given back; read at once (a frame with them fills a
# pipe); unsent for the host when clients are no longer read.
use constant { CREDIT => 262_144, GRANT => 131_072, READ_SIZE => 65_527, OUT_HIGH => 262_144 };
# Bytes kept for a program's stdin, of its output, and of a file or a listener's reply.
use constant { KEYS_MAX => 67_108_864, STDOUT_MAX => 262_144, STDERR_MAX => 16_384, REPLY_MAX => 65_536 };
# Bytes of a socket's path, seconds between looks at jobs, seconds for an end.
use constant { PATH_MAX => $^O eq 'linux' ? 107 : 103, PAUSE => 0.05, ENDING => 1, WNOHANG => 1 };

# A stream is one client connection. QUEUE: bytes its socket has not taken yet. MAY_SEND: bytes the host lets us send.
# MAY_GET: bytes we let it send. TAKEN: bytes delivered, not yet granted back. ENDED: the client has sent its last
# byte. DEAF: it takes no more; what it wrote is still read. LAST: its last byte. WORDS: what it is told at the end.
use constant { ID => 0, HANDLE => 1, FD => 2, QUEUE => 3, MAY_SEND => 4, MAY_GET => 5 };
use constant { TAKEN => 6, ENDED => 7, DEAF => 8, LAST => 9, WORDS => 10, AHEAD => 11 };    # AHEAD: see ahead.pl

# All settings are numbers, which percent-encoding leaves as they are.
my %setting = $main::CONFIG =~ /^([a-z-]+)=(\d+)$/mg;
my ($in, $out) = ('', '');    # bytes from the host not yet parsed, bytes for it not yet written
# select's bit vectors; $control leaves clients out, and $writers is empty when nothing waits to be written.
my ($readers, $control, $writers) = ('', '', '');
my (@by_fd, @on_read, @on_write);    # by descriptor: streams, and what is called for the others
my (%streams, %listeners, %jobs, @made_dirs);
my ($last_id, $accepting, $stopped_at) = (0, 1, 0);
my $keys = '';    # bytes for the stdin of the next program; undefined: too many came
my ($heard, $unanswered, $quiet) = (0, 0, 0);    # bytes of the host in this tick, PINGs and ticks without any
my ($now, $signal, $umask) = (time, 0, umask 0177);

## Frames to the host.
sub note { syswrite STDERR, join(' ', split /[\x00-\x1f\x7f]+/, $_[0]) . "\n" }
sub trace { note("frame @_") }    # its way, type, stream and size, but not what it carries
sub header { trace('>', @_) if $setting{trace}; return pack 'NCN', LENGTH_MIN + $_[2], $_[0], $_[1] }
sub frame { my ($type, $id, $payload) = @_; $out .= header($type, $id, length $payload) . $payload }

sub flush {
    my $n = syswrite STDOUT, $out;
    finish(0) if !defined $n && !again();
    substr $out, 0, $n || 0, '';
    watch_write(1, length $out ? \&flush : undef) if length $writers || length $out;
}

# Tells the host why the bridge ends, and ends.
sub fail {
    frame(ERROR, 0, $_[0]);
    fcntl STDOUT, F_SETFL, fcntl(STDOUT, F_GETFL, 0) & ~O_NONBLOCK;
    flush() while length $out;
    finish(1);
}

## Descriptors.
sub again { return $! == EAGAIN || $! == EINTR }
sub nonblocking { my ($handle) = @_; fcntl $handle, F_SETFL, fcntl($handle, F_GETFL, 0) | O_NONBLOCK }

# Calls $code whenever a descriptor can be read, or no longer calls anything.
sub watch_read { my ($fd, $code) = @_; vec($readers, $fd, 1) = vec($control, $fd, 1) = !!($on_read[$fd] = $code) }
sub watch_write {
    my ($fd, $code) = @_;
    vec($writers, $fd, 1) = !!($on_write[$fd] = $code);
    $writers = '' if $writers !~ /[^\0]/;
}

sub detach {
    my ($handle) = @_;
    defined(my $fd = fileno $handle) or return;
    watch_read($fd);
    watch_write($fd) if $on_write[$fd];
    undef $by_fd[$fd];
    close $handle;
}

## Streams.
# One that the host closed is no longer in %streams, and the host is not told of its end.
sub end_stream {
    my ($stream) = @_;
    if (delete $streams{$stream->[ID]}) { pass_kept($stream); frame(CLOSE, $stream->[ID], '') }
    detach($stream->[HANDLE]);
    accept_from_now_on(1) if !$accepting;
}

sub grant {
    my ($stream) = @_;
    frame(WINDOW, $stream->[ID], pack 'N', $stream->[TAKEN]);
    $stream->[MAY_GET] += $stream->[TAKEN];
    $stream->[TAKEN] = 0;
}

# Nothing could be read behind $at + HEADER: $n is 0 at the client's end, and undef for an error.
sub nothing_read {
    my ($stream, $at, $n) = @_;
    my $is_error = !defined $n && !again();
    substr($out, $at) = '' if length $out > $at;
    return end_stream($stream) if $is_error || defined $n && $stream->[DEAF];
    return if !defined $n;
    $stream->[ENDED] = 1;
    vec($readers, $stream->[FD], 1) = 0;
    pass_kept($stream);
    frame(EOF, $stream->[ID], '');
}

sub client_writable {
    my ($stream) = @_;
    my $n = syswrite $stream->[HANDLE], $stream->[QUEUE];
    return if !defined $n && again();
    return end_stream($stream) if !defined $n && $stream->[ENDED];
    $n = length $stream->[QUEUE] if $stream->[DEAF] = !defined $n;
    substr $stream->[QUEUE], 0, $n, '';
    $stream->[TAKEN] += $n;
    watch_write($stream->[FD]) if !length $stream->[QUEUE];
    if ($streams{$stream->[ID]})     { grant($stream) if $stream->[TAKEN] >= GRANT }
    elsif (!length $stream->[QUEUE]) { end_stream($stream) }
}

## Frames from the host.
# Every byte passes this or serve: what nearly always happens is written out in them, and has no call but
# the system's and one for a header.
sub host_readable {
    my $read = sysread STDIN, $in, 4 * READ_SIZE, length $in;
    if (!$read) { return if !defined $read && again(); finish(0) }
    $heard = 1;
    my ($at, $end) = (0, length $in);
    while ($end - $at >= 4) {
        my ($length, $type, $id) = unpack 'NCN', substr $in, $at, HEADER;
        fail("the host announced a frame of $length bytes") if $length < LENGTH_MIN || $length > LENGTH_MAX;
        last if $end - $at < 4 + $length;
        trace('<', $type, $id, $length - LENGTH_MIN) if $setting{trace};
        if ($type != DATA) { host_sent($type, $id, substr $in, $at + HEADER, $length - LENGTH_MIN) }
        elsif (my $stream = $streams{$id}) {
            my $count = $length - LENGTH_MIN;
            my $n = $stream->[DEAF] ? $count : length $stream->[QUEUE] ? 0
                : syswrite $stream->[HANDLE], $in, $count, $at + HEADER;
            if (!$n || $n < $count) {
                # An error is met again when the queue is written.
                $stream->[QUEUE] .= substr $in, $at + HEADER + ($n ||= 0), $count - $n;
                watch_write($stream->[FD], sub { client_writable($stream) });
            }
            $stream->[TAKEN] += $n;
            $stream->[LAST] = substr $in, $at + 3 + $length, 1 if $count;
            if (($stream->[MAY_GET] -= $count) < 0) { end_stream($stream) }    # more than its credit
            elsif ($stream->[TAKEN] >= GRANT)       { grant($stream) }
        }
        $at += 4 + $length;
    }
    substr $in, 0, $at, '';
}

sub host_sent {
    my ($type, $id, $payload) = @_;
    my $stream = $streams{$id};
    if ($type == TURN) { take_turn($stream->[AHEAD], $payload) if $stream && $stream->[AHEAD] }
    elsif ($type == CALL)  { settle($id, call($id, $payload)) }
    elsif ($type == PING)  { frame(PONG, 0, '') }
    elsif ($type == TABLE) { set_table($id, $payload) }
    elsif ($type == PUBKEY && defined $keys) { undef $keys if length($keys .= $payload) > KEYS_MAX }
    elsif ($type == CLOSE && delete $streams{$id}) {
        vec($readers, $stream->[FD], 1) = 0;
        end_stream($stream) if !length $stream->[QUEUE];
    }
    elsif ($type == WINDOW && $stream && length $payload == 4) {
        $stream->[MAY_SEND] += unpack 'N', $payload;
        vec($readers, $stream->[FD], 1) = 1 if $stream->[MAY_SEND] > 0 && !$stream->[ENDED];
    }
}

## Files.
sub identity { my @stat = @_; return @stat ? "$stat[0]:$stat[1]" : '' }
sub facts { my @stat = @_; return @stat && [@stat[0, 1, 2, 4], time - $stat[10]] }

sub read_start {
    my ($call, $path) = @_;
    # Without O_NONBLOCK the open of a pipe waits for its writer.
    sysopen my $file, $path, O_RDONLY | O_NONBLOCK or return 0;
    my ($bytes, $n) = ('', 1);
    $n = sysread $file, $bytes, REPLY_MAX - length $bytes, length $bytes while $n;
    return defined $n && [$bytes];
}

sub which {
    my ($name) = @_;
    my @directories = grep { m{^/} } split /:/, $ENV{PATH} || '/usr/bin:/bin';
    for my $path ($name =~ m{/} ? $name : map { "$_/$name" } @directories) { return $path if -f $path && -x _ }
    return failed(ENOENT);
}

sub make_directory {
    my ($call, $path) = @_;
    while ($path =~ m{[^/]+}g) {
        my $directory = substr $path, 0, pos $path;
        next if -e $directory;
        if (mkdir $directory) { push @made_dirs, $directory; chmod 0700, $directory }
        elsif ($! != EEXIST)  { return 0 }
    }
    return [];
}

## Jobs: programs that run and listeners that are asked, while everything else goes on.
# A job writes bytes to one handle, and reads others to their end. Its check returns what an operation does.
sub start_job {
    my ($call, $key, $check, $seconds, $bytes, $writer, @readers) = @_;
    my $job = $jobs{$key} = {call => $call, check => $check, deadline => $now + $seconds, open => scalar @readers,
        handles => [$writer, @readers]};
    nonblocking($_) for $writer, @readers;
    for my $index (0 .. $#readers) {
        my ($handle, $text) = ($readers[$index], \($job->{texts}[$index] = ''));
        watch_read(fileno $handle, sub {
            my $n = sysread $handle, $$text, READ_SIZE, length $$text;
            return if !defined $n && again();
            substr($$text, 0, -STDOUT_MAX) = '' if length $$text > STDOUT_MAX;
            if (!$n) { $job->{open}--; detach($handle) }
        });
    }
    my ($fd, $at) = (fileno $writer, 0);
    watch_write($fd, sub {
        my $n = syswrite $writer, $bytes, READ_SIZE, $at;
        return if defined $n ? ($at += $n) < length $bytes : again();
        $on_read[$fd] ? watch_write($fd) : detach($writer);    # a socket is also read
    });
    return 1;
}

sub check_jobs {
    while ((my $pid = waitpid -1, WNOHANG) > 0) { $jobs{$pid}{status} = $? if $jobs{$pid} }
    while (my ($key, $job) = each %jobs) {
        settle($job->{call}, $job->{check}->($job, $now >= $job->{deadline})) or next;
        detach($_) for @{$job->{handles}};
        delete $jobs{$key};
    }
}

sub run_program {
    my ($call, $seconds, @argv) = @_;
    (my $input, $keys) = ($keys, '');
    return failed(ENOBUFS) if !defined $input;
    my $program = which($argv[0]) or return 0;
    pipe my $in_r, my $in_w and pipe my $out_r, my $out_w and pipe my $err_r, my $err_w or return 0;
    defined(my $pid = fork) or return 0;
    if (!$pid) {
        setpgrp 0, 0;    # it and what it runs end together
        umask $umask;
        ($ENV{LC_ALL}, @SIG{qw(PIPE TERM HUP INT CHLD)}) = ('C', ('DEFAULT') x 5);
        open STDIN, '<&', $in_r and open STDOUT, '>&', $out_w and open STDERR, '>&', $err_w;
        exec {$program} @argv or exit 127;
    }
    setpgrp $pid, $pid;
    return start_job($call, $pid, sub {
        my ($job, $is_late) = @_;
        if ($is_late) { kill 'KILL', -$pid; return failed(Errno::ETIMEDOUT) }
        return 1 if $job->{open} || !defined $job->{status};
        my ($number, $status) = ($job->{status} & 127, $job->{status} >> 8);
        return [$number ? 128 + $number : $status, $job->{texts}[0], substr $job->{texts}[1], -STDERR_MAX];
    }, $seconds, $input, $in_w, $out_r, $err_r);
}

sub ask_listener {
    my ($call, $path, $milliseconds, $count, $lines, $bytes) = @_;
    return failed(ENAMETOOLONG) if length $path > PATH_MAX;
    socket my $handle, AF_UNIX, SOCK_STREAM, 0 or return 0;
    nonblocking($handle);
    connect $handle, pack_sockaddr_un($path) or return 0;
    return start_job($call, $handle, sub {
        my ($job, $is_late) = @_;
        my $reply = substr $job->{texts}[0], 0, REPLY_MAX;
        my $is_enough = length $reply == REPLY_MAX || length $reply >= $count && $reply =~ tr/\n// >= $lines;
        my $reason = $is_enough ? 'enough' : !$job->{open} ? 'closed' : $is_late ? 'timeout' : return 1;
        return [$reason, $reply];
    }, $milliseconds / 1000, $bytes, $handle, $handle);
}

## Listening.
# Gives a socket its path, if what is there is still what the host expects.
sub place {
    my ($temporary, $path, $expected) = @_;
    if ($expected eq '') {
        return unlink $temporary if link $temporary, $path;
        # These say that the file system has no hard links to sockets.
        return 0 if !grep { $!{$_} } qw(EPERM ENOTSUP EOPNOTSUPP ENOSYS EMLINK EINVAL EACCES);
    }
    return identity(lstat $path) eq $expected ? rename $temporary, $path : failed(EEXIST);
}

# The socket has its mode before it has its path.
sub bind_socket {
    my ($call, $type, $path, $temporary, $expected, $backlog, @words) = @_;
    return failed(ENAMETOOLONG) if length $path > PATH_MAX || length $temporary > PATH_MAX;
    socket my $handle, AF_UNIX, SOCK_STREAM, 0 or return 0;
    nonblocking($handle);
    bind $handle, pack_sockaddr_un($temporary) or return 0;
    my $is_placed = chmod(0600, $temporary) && listen($handle, $backlog) && place($temporary, $path, $expected);
    my @stat = $is_placed ? lstat $path : ();
    if (!@stat) { my $error = $! + 0; unlink $temporary; return failed($error) }
    my ($old, $there) = ($listeners{$type}, identity(@stat));
    $listeners{$type} = {type => $type, path => $path, handle => $handle, identity => $there, seen => $there,
        words => \@words};
    accept_from_now_on($accepting);
    remove_listener($old) if $old;
    return [];
}

# The clients that had connected before are accepted.
sub remove_listener {
    my ($listener) = @_;
    unlink $listener->{path} if identity(lstat $listener->{path}) eq $listener->{identity};
    accept_clients($listener, 1);
    detach($listener->{handle});
}

sub accept_from_now_on {
    ($accepting) = @_;
    for my $listener (values %listeners) {
        watch_read(fileno $listener->{handle}, $accepting && sub { accept_clients($listener) });
    }
}

# In one turn one client, since most come alone; all of a socket that is about to be closed.
sub accept_clients {
    my ($listener, $is_closing) = @_;
    # The handles get no buffers, which are never used here and take four system calls to set up.
    BEGIN { ${^OPEN} = ":unix\0:unix" }
    for (my $is_first = 1; $is_closing || $is_first; $is_first = 0) {
        return accept_from_now_on(0) if !$is_closing && keys %streams >= $setting{'max-streams'};
        my $client;
        if (!accept $client, $listener->{handle}) {
            next if $! == EINTR || $! == ECONNABORTED;
            # Without descriptors the clients wait in the backlog, until a stream ends.
            return $! == EMFILE || $! == ENFILE ? accept_from_now_on(0) : 0;
        }
        fcntl $client, F_SETFL, O_RDWR | O_NONBLOCK;
        my ($id, $fd) = (++$last_id, fileno $client);
        $streams{$id} = $by_fd[$fd] = [$id, $client, $fd, '', CREDIT, CREDIT, 0, 0, 0, '', $listener->{words}];
        vec($readers, $fd, 1) = 1;
        greet($streams{$id}, $listener->{type});
    }
}

## Operations: each returns the fields of its result, or 0 for the error in $!, or 1 if its job answers later.
# Their arguments: a number, text without a zero byte (a path), any bytes.
my %argument = (n => qr/\A\d{1,9}\z/, t => qr/\A[^\0]*\z/, b => qr/\A/);
my %operations = (
    stat     => ['t',     sub { return facts(stat $_[1]) }],
    lstat    => ['t',     sub { return facts(lstat $_[1]) }],
    readlink => ['t',     sub { my $text = readlink $_[1]; return defined $text && [$text] }],
    list     => ['t',     sub { opendir my $dir, $_[1] or return 0; return [grep { !/\A\.\.?\z/ } readdir $dir] }],
    read     => ['t',     \&read_start],
    which    => ['t',     sub { my $path = which($_[1]); return $path && [$path] }],
    run      => ['nt',    \&run_program],
    mkdir    => ['t',     \&make_directory],
    chmod    => ['tn',    sub { return chmod($_[2], $_[1]) && [] }],
    ask      => ['tnnnb', \&ask_listener],
    bind     => ['bttbnbb', \&bind_socket],
    release  => ['b',     sub { my $old = delete $listeners{$_[1]}; remove_listener($old) if $old; return [] }],
);

sub call {
    my ($call, $payload) = @_;
    my ($name, @arguments) = eval { unpack '(N/a)*', $payload };
    # unpack shortens the last field to what there is of it.
    return failed(EINVAL) if !defined $name || pack('(N/a*)*', $name, @arguments) ne $payload;
    my ($letters, $operation) = @{$operations{$name} || return failed(ENOSYS)};
    $letters .= 't' x (@arguments - 2) if $name eq 'run' && @arguments > 2;
    return failed(EINVAL) if @arguments != length $letters
        || grep { $arguments[$_] !~ $argument{substr $letters, $_, 1} } 0 .. $#arguments;
    return $operation->($call, @arguments);
}

# Sends the result unless it comes later.
sub settle {
    my ($call, $result) = @_;
    return 0 if $result && !ref $result;
    my $payload = $result && pack '(N/a*)*', 'ok', @$result;
    $payload = failed(EMSGSIZE) if $payload && length $payload > LENGTH_MAX - LENGTH_MIN;
    # Of two names for one number EAGAIN, not EWOULDBLOCK.
    frame(RESULT, $call, $payload || pack '(N/a*)*', (sort grep { $!{$_} } keys %!)[0] || 'EIO', "$!");
    return 1;
}
sub failed { $! = $_[0]; return 0 }

## Start and end.
sub ready {
    fail("the host speaks version $setting{protocol}, this server " . VERSION) if $setting{protocol} != VERSION;
    my $home = $ENV{HOME} || (getpwuid $>)[7] || '/';
    my $odd = utf8::decode(my $copy = $home) ? qr/[\x00-\x1f"\\\x7f]/ : qr/[\x00-\x1f"\\\x7f-\xff]/;
    $home =~ s/($odd)/sprintf '\\u%04x', ord $1/ge;
    my $boot = read_start(0, '/proc/sys/kernel/random/boot_id');
    frame(READY, 0, sprintf '{"version":%d,"runtime":"perl","system":"%s","uid":%d,"home":"%s"%s}', VERSION,
        $^O eq 'solaris' ? 'sunos' : $^O, $>, $home, $boot && $boot->[0] =~ /([\w-]+)/ ? qq(,"boot":"$1") : '');
}

# What is done from time to time; returns when the next time is. The host is told of something else at a socket's path,
# once for each thing that appears there, and asked whether it is there. Ticks are counted, not seconds: the host does
# not count as silent while this process stands still, and is asked again before it is given up.
sub tick {
    # Descriptors that were missing may be there again.
    accept_from_now_on(1) if !$accepting && keys %streams < $setting{'max-streams'};
    for my $listener (values %listeners) {
        my $there = identity(lstat $listener->{path});
        frame(CHANGED, 0, $listener->{type}) if $there ne $listener->{seen} && $there ne $listener->{identity};
        $listener->{seen} = $there;
    }
    $unanswered = $quiet = $heard = 0 if $heard;
    if (%streams || %jobs || length $out || ++$quiet >= $setting{'idle-ticks'}) {
        finish(1) if $unanswered++ >= $setting{'max-unanswered'};
        frame(PING, 0, '');
        $quiet = 0;
    }
    return $now + $setting{'tick-ms'} / 1000;
}

# Whether a client has left. What it still writes is read: else an error would come before what it was told.
sub has_left { my ($client) = @_; my $n; 1 while $n = sysread $client, my $dropped, READ_SIZE; defined $n || !again() }

# Removes what is ours and ends. Clients are told so: between two lines, behind a greeting if they had none.
sub finish {
    my ($status) = @_;
    remove_listener($_) for values %listeners;
    rmdir $_ for reverse @made_dirs;    # one that is in use by now stays
    close STDOUT;
    for my $stream (values %streams) {
        my ($greeting, $refusal) = @{$stream->[WORDS]};
        my $words = $stream->[LAST] eq '' ? $greeting . $refusal : $stream->[LAST] eq "\n" ? $refusal : '';
        syswrite $stream->[HANDLE], $stream->[QUEUE] . $words;
        shutdown $stream->[HANDLE], 1;
    }
    my @pids = grep { /^\d+$/ } keys %jobs;
    kill 'TERM', map { -$_ } @pids;
    for (1 .. ENDING / PAUSE) {
        @pids = grep { waitpid($_, WNOHANG) == 0 } @pids;
        delete @streams{grep { has_left($streams{$_}[HANDLE]) } keys %streams};
        last if !@pids && !%streams;
        select undef, undef, undef, PAUSE;
    }
    kill 'KILL', map { -$_ } @pids;
    exit $status;
}

sub serve {
    my $next_tick = tick();
    my ($r, $w, $wait, $n, $rest, $clock, $left, $bits, $fd, $stream, $at, $read);
    until ($signal) {
        $r = length $out > OUT_HIGH ? $control : $readers;
        $w = $writers;
        $wait = %jobs && $next_tick - $now > PAUSE ? PAUSE : $next_tick - $now;
        ($n, $rest) = select $r, $w, undef, $wait;
        # time() has whole seconds. Between them the time in select is counted, where the system tells it.
        $now += $n ? $wait - $rest : $wait;
        $now = $clock if $now < ($clock = time - 1);
        if (($left = $n) > 0) {
            if (vec $r, 0, 1) { host_readable(); $left-- }
            if ($left) {
                if (length $w) {
                    ($bits, $fd) = (unpack('b*', $w), 0);
                    while (($fd = index $bits, '1', $fd + 1) > 0) { $left--; $on_write[$fd]->() if $on_write[$fd] }
                }
                $bits = unpack 'b*', $r;
                # Around once, from behind the client where the turn before had to stop.
                ($fd, $stopped_at) = ($stopped_at, 0);
            }
            while ($left-- > 0) {
                $fd = index $bits, '1', $fd + 1;
                last if $fd < 0 && ($fd = index $bits, '1', 1) < 0;
                if (!($stream = $by_fd[$fd])) { $on_read[$fd]->() if $on_read[$fd]; next }
                # A frame of the same turn may have taken its credit, or ended it.
                next if !vec $readers, $fd, 1;
                # Read behind the place of its header in what goes to the host: nothing is copied.
                $at = length $out;
                $read = sysread $stream->[HANDLE], $out,
                    $stream->[MAY_SEND] < READ_SIZE ? $stream->[MAY_SEND] : READ_SIZE, $at + HEADER;
                if (!$read) { nothing_read($stream, $at, $read); next }
                substr $out, $at, HEADER, header(DATA, $stream->[ID], $read)
                    if !$stream->[AHEAD] || !read_ahead($stream, $at, $read);
                vec($readers, $fd, 1) = 0 if ($stream->[MAY_SEND] -= $read) <= 0;
                next if length $out <= OUT_HIGH;
                flush();
                if (length $out > OUT_HIGH) { $stopped_at = $fd; last }    # the host takes no more for now
            }
        }
        check_jobs() if %jobs || $n <= 0;
        $next_tick = tick() if $now >= $next_tick;
        flush() if length $out;
    }
    finish(128 + $signal);
}

$0 = 'gpg-bridge socket server';
$SIG{PIPE} = 'IGNORE';
$SIG{CHLD} = sub { };    # ends the wait of select
@SIG{qw(TERM HUP INT)} = map { my $number = $_; sub { $signal = $number } } 15, 1, 2;
nonblocking($_) for \*STDOUT, \*STDERR;
watch_read(0, \&host_readable);
eval { ready(); flush(); serve() } or note("the socket server failed: $@");
finish(1);
