# The socket server for targets that have Perl 5. perl-base is enough: no JSON::PP, no Time::HiRes.
# The loader of launch.ts evaluates this text with the configuration in $main::CONFIG and frames on stdin
# and stdout. It is one text because it travels through a pipe; server.py and main.ts behave the same.
use strict;
use warnings;
use Errno qw(EACCES EAGAIN ECONNABORTED ECONNREFUSED EEXIST EINTR EMFILE ENFILE ENOENT EPROTOTYPE);
use Fcntl qw(F_GETFL F_SETFL O_NONBLOCK O_RDWR S_ISDIR S_ISLNK S_ISREG S_ISSOCK);
use Socket qw(AF_UNIX SOCK_STREAM pack_sockaddr_un);

# Frame: uint32 length of what follows, uint8 type, uint32 stream, payload.
use constant { DATA => 1, OPEN => 2, CLOSE => 3, PUBKEY => 4, READY => 5, ERROR => 6, WINDOW => 7 };
use constant {
    HEADER       => 9,
    LENGTH_MIN   => 5,
    LENGTH_MAX   => 1_048_576,
    CREDIT       => 262_144,        # bytes a stream may send before the first WINDOW, per direction
    GRANT        => 131_072,        # bytes delivered before the credit for them is sent back
    QUEUE_MAX    => 8_388_608,      # unsent bytes a stream may have when the host knows no WINDOW
    KEYS_MAX     => 67_108_864,     # bytes of public keys that may wait for gpg
    READ_SIZE    => 65_536,
    OUT_HIGH     => 262_144,        # unsent bytes for the host at which clients are not read
    ACCEPT_BATCH => 64,             # clients accepted in one turn, at most
    REPLY_MAX    => 65_536,         # bytes kept of what a program or a probed agent says
    PATH_MAX     => $^O eq 'linux' ? 107 : 103,
    FALSE_CODE   => 256,            # GPG_ERR_FALSE
    ASSUAN       => 'gpg-agent',
    SSH          => 'ssh-agent',
};

# A stream: one client connection.
use constant {
    ID       => 0,
    HANDLE   => 1,
    FD       => 2,
    QUEUE    => 3,    # bytes for the client that its socket has not taken yet
    MAY_SEND => 4,    # bytes the host lets us send
    MAY_GET  => 5,    # bytes we let the host send
    TAKEN    => 6,    # bytes delivered to the client, not yet granted back
    ENDING   => 7,    # the host closed it: what is queued is still delivered
    DEAF     => 8,    # the client takes no more bytes; what it wrote before is still read
};

my %config;
for my $line (split /\n/, $main::CONFIG) {
    my ($key, $value) = $line =~ /^([a-z-]+)=(.*)$/ or next;
    $value =~ s/%([0-9A-Fa-f]{2})/chr hex $1/ge;
    push @{$config{$key}}, $value;
}
sub setting { my ($key, $default) = @_; return $config{$key} ? $config{$key}[-1] : $default }

my $backlog       = setting('backlog', 4096);
my $max_streams   = setting('max-streams', 4096);
my $probe_seconds = setting('probe-ms', 2000) / 1000;
my $watch_seconds = setting('watch-ms', 2000) / 1000;
# dev:ino or dev:ino:boot; under another kernel the same numbers are another file.
my $boot_id       = '';
if (open my $boot, '<', '/proc/sys/kernel/random/boot_id') { chomp($boot_id = <$boot> // '') }
my %host_socket   = map { $_->[0] => 1 }
    grep { !defined $_->[1] || $boot_id eq '' || $_->[1] eq $boot_id }
    map { [/^(\d+:\d+)(?::(.+))?$/] } @{$config{'host-socket'} || []};

my ($in, $out) = ('', '');              # bytes from the host not yet parsed, bytes for it not yet written
my ($body, $body_stream) = (0, undef);  # what is missing of a DATA frame, and whose it is
# Whether the host uses WINDOW. Before it has said anything, streams keep to the credit they start with,
# which suits both.
my ($credit_used, $credit_binds) = (0, 1);
my ($is_ready, $signal) = (0, undef);
# select's bit vectors; $control leaves clients out, and $writers is empty when nothing waits to be written.
my ($readers, $control, $writers, $writing) = ('', '', '', 0);
my (%streams, @by_fd, @on_read);
my ($last_id, $accepting, $accept_batch, $stopped_at) = (0, 0, 1, 0);
my (@listeners, @warnings, @made_dirs, %jobs);
my ($keys, $importing) = ('', 0);

sub note {
    my ($text) = @_;
    $text =~ s/[\x00-\x1f\x7f]+/ /g;
    syswrite STDERR, "$text\n";
}

# Something the person should hear about: in READY when it happens before, in the log always.
sub notice {
    my ($text) = @_;
    push @warnings, $text unless $is_ready;
    note($text);
}

# Dies with an error in the words of the host's own: what failed, why, and what to do.
sub fail_with { my ($what, $why, $fix) = @_; die "$what: $why. $fix\n" }

# The text of whatever was died with; Perl's own messages name a place in this text, of use to nobody.
sub reason {
    my ($error) = @_;
    $error =~ s/ at \S+ line \d+\.?$//m;
    $error =~ s/\s+\z//;
    return $error;
}

sub json {
    my ($value) = @_;
    return '[' . join(',', map { json($_) } @$value) . ']' if ref $value eq 'ARRAY';
    return '{' . join(',', map { json($_) . ':' . json($value->{$_}) } sort keys %$value) . '}'
        if ref $value eq 'HASH';
    return $$value if ref $value eq 'SCALAR';    # a number
    my $probe = $value;
    my $odd = utf8::decode($probe) ? qr/[\x00-\x1f"\\\x7f]/ : qr/[\x00-\x1f"\\\x7f-\xff]/;
    $value =~ s/($odd)/sprintf '\\u%04x', ord $1/ge;
    return qq("$value");
}

sub frame {
    my ($type, $id, $payload) = @_;
    $out .= pack('NCN', LENGTH_MIN + length $payload, $type, $id) . $payload;
}

sub nonblocking {
    my ($handle) = @_;
    my $flags = fcntl($handle, F_GETFL, 0) or return;
    fcntl($handle, F_SETFL, $flags | O_NONBLOCK);
}

sub watch_control { my ($fd, $on) = @_; vec($readers, $fd, 1) = $on; vec($control, $fd, 1) = $on }

sub watch_write {
    my ($fd, $on) = @_;
    return if vec($writers, $fd, 1) == $on;
    vec($writers, $fd, 1) = $on;
    $writing += $on ? 1 : -1;
    $writers = '' if !$writing;
}

# Programs of the target.

sub find_program {
    my ($name) = @_;
    for my $dir (split /:/, $ENV{PATH} || '/usr/bin:/bin') {
        return "$dir/$name" if $dir =~ m{^/} && -f "$dir/$name" && -x _;
    }
    return undef;
}

# Runs a program to its end. Returns its status (-1: it did not end in time), stdout and stderr.
sub run {
    my ($input, $seconds, @argv) = @_;
    pipe(my $in_r, my $in_w) && pipe(my $out_r, my $out_w) && pipe(my $err_r, my $err_w) or die "pipe: $!";
    my $pid = fork;
    defined $pid or die "fork: $!";
    if (!$pid) {
        $SIG{$_} = 'DEFAULT' for qw(PIPE TERM HUP INT);
        $ENV{LC_ALL} = 'C';
        open STDIN,  '<&', $in_r;
        open STDOUT, '>&', $out_w;
        open STDERR, '>&', $err_w;
        exec {$argv[0]} @argv or exit 127;
    }
    close $_ for $in_r, $out_w, $err_w;
    nonblocking($in_w);
    my %text = (fileno $out_r => '', fileno $err_r => '');
    my %open = (fileno $out_r => $out_r, fileno $err_r => $err_r);
    my $deadline = time + $seconds;
    my $at = 0;
    close $in_w and undef $in_w if !length $input;

    while (%open && time <= $deadline) {
        my ($r, $w) = ('', '');
        vec($r, $_, 1) = 1 for keys %open;
        vec($w, fileno $in_w, 1) = 1 if $in_w;
        next if select($r, $w, undef, 1) < 1;
        if ($in_w && vec($w, fileno $in_w, 1)) {
            my $n = syswrite $in_w, $input, READ_SIZE, $at;
            $at += $n || 0;
            if ($at >= length $input || !defined $n && $! != EAGAIN && $! != EINTR) { close $in_w; undef $in_w }
        }
        for my $fd (grep { vec($r, $_, 1) } keys %open) {
            my $n = sysread $open{$fd}, my $piece, READ_SIZE;
            next if !defined $n && ($! == EAGAIN || $! == EINTR);
            if ($n) { $text{$fd} .= $piece; substr($text{$fd}, 0, -REPLY_MAX) = '' if length $text{$fd} > REPLY_MAX }
            else    { delete $open{$fd} }
        }
    }
    my $status = -1;
    if (%open) { kill 'KILL', $pid; waitpid $pid, 0 }
    else       { waitpid $pid, 0; $status = $? & 127 ? 128 + ($? & 127) : $? >> 8 }
    return ($status, $text{fileno $out_r}, $text{fileno $err_r});
}

# The last line a program complained with, or how it ended.
sub complaint {
    my ($status, $text) = @_;
    return $1 if $text =~ /([^\r\n]+)\s*\z/;
    return $status < 0 ? 'it did not end in time' : "it ended with status $status";
}

sub gpgconf {
    my @arguments = @_;
    my ($program) = grep { !find_program($_) } qw(gpgconf gpg);
    fail_with("can't make the gpg socket", "the target has no $program on its PATH",
        'Install GnuPG in the target (`apt install gnupg`, `apk add gnupg`).') if $program;
    my ($status, $text, $complaint) = run('', 10, find_program('gpgconf'), @arguments);
    fail_with("gpgconf @arguments failed", complaint($status, $complaint),
        "Run `gpgconf @arguments` in the target to see what it says.") if $status;
    $text =~ s/\r?\n\z//;
    return $text;
}

# Does blocking work in a process of its own, so that streams go on meanwhile. The fields it returns
# are handed to $done, after the error it died with or ''.
sub in_child {
    my ($work, $done) = @_;
    pipe(my $r, my $w) or die "pipe: $!";
    my $pid = fork;
    defined $pid or die "fork: $!";
    if (!$pid) {
        setpgrp(0, 0);    # it and what it runs end together
        $SIG{$_} = 'DEFAULT' for qw(PIPE TERM HUP INT);
        # A copy of a client's socket held here would hide its end from the client.
        close $_->[HANDLE] for values %streams;
        close $_->{handle} for @listeners;
        open STDIN,  '<', '/dev/null';
        open STDOUT, '>', '/dev/null';
        my @fields = eval { ('', $work->()) };
        @fields = (reason($@)) if !@fields;
        syswrite $w, join "\0", @fields;
        exit 0;
    }
    close $w;
    nonblocking($r);    # an event of the same turn may be for what had this descriptor before
    my $fd = fileno $r;
    my $answer = '';
    $jobs{$pid} = 1;
    watch_control($fd, 1);
    $on_read[$fd] = sub {
        my $n = sysread $r, $answer, READ_SIZE, length $answer;
        return if $n || !defined $n && ($! == EAGAIN || $! == EINTR);
        watch_control($fd, 0);
        $on_read[$fd] = undef;
        close $r;
        waitpid $pid, 0;
        delete $jobs{$pid};
        my ($error, @fields) = split /\0/, $answer, -1;
        $done->(defined $error ? $error : 'a helper process was killed', @fields);
    };
}

# What is at a socket's place.

sub identity { my @stat = @_; return @stat ? "$stat[0]:$stat[1]" : '' }
sub directory_of { my ($path) = @_; return $path =~ m{^(.+)/[^/]*$} ? $1 : '/' }

# Waits until a handle can be read or the time that is left is used up. time() has whole seconds, so
# steps are counted.
sub wait_for {
    my ($handle, $left) = @_;
    while ($$left > 0) {
        my $bits = '';
        vec($bits, fileno $handle, 1) = 1;
        return 1 if select($bits, undef, undef, 0.1) > 0;
        $$left -= 0.1;
    }
    return 0;
}

# Reads until $enough, a pattern, matches. Returns what it captured, or undef when nothing came, the
# other end closed, or it said too much.
sub read_until {
    my ($socket, $text, $enough, $left) = @_;
    while (1) {
        return $1 if $$text =~ s/$enough//;
        return undef if length $$text > REPLY_MAX || !wait_for($socket, $left);
        my $n = sysread $socket, $$text, 4096, length $$text;
        return undef if defined $n ? !$n : $! != EAGAIN && $! != EINTR;
    }
}

# The lines of an Assuan response up to its last, which starts with OK, ERR or INQUIRE.
my $response = qr/\A((?:[^\n]*\n)*?(?:OK|ERR|INQUIRE)\b[^\n]*\n)/;

# How a listener answers: unrestricted (gpg-agent's main socket; with its process id and its name for its
# socket), forwarded, or nothing at all ('').
sub ask {
    my ($socket, $kind, $left) = @_;
    my $text = '';
    if ($kind eq SSH) {
        syswrite $socket, pack 'NC', 1, 11;    # list the identities, which every agent may be asked
        return read_until($socket, \$text, qr/\A(.{5})/s, $left) ? 'forwarded' : '';
    }
    my $greeting = read_until($socket, \$text, qr/\A((?:#[^\n]*\n)*[^\n]*\n)/, $left);
    return '' if !defined $greeting;
    return 'forwarded' if $greeting !~ /^OK\b/m;
    my @answers;
    for my $command ('GETINFO restricted', 'GETINFO pid', 'GETINFO socket_name') {
        syswrite $socket, "$command\n";
        my $answer = read_until($socket, \$text, $response, $left);
        return '' if !defined $answer;
        # Any other error is a bridge's that can't reach its host: no agent of the target answers so.
        return 'forwarded' if !@answers && !($answer =~ /^ERR (\d+)/m && ($1 & 0xffff) == FALSE_CODE);
        push @answers, $answer =~ /^D ([^\n]*)/m ? $1 : '';
    }
    $answers[2] =~ s/%([0-9A-F]{2})/chr hex $1/ge;
    return ('unrestricted', @answers[1, 2]);
}

# How the temporary names of these sockets start; every runtime's server uses the same.
my %bound_name = ('S.gpg-agent' => '.gbd8', 'agent.sock' => '.gbbf');
sub temporary_start { my ($path) = @_; return $bound_name{(split '/', $path)[-1]} || '.gb00' }

# The kernel's numbers for what listens at a path. It keeps the name given to bind(), which for a bridge
# is a temporary one.
sub listening_sockets {
    my ($path) = @_;
    my %sockets;
    my $dir = directory_of($path);
    my $bound = temporary_start($path);
    my $names = qr/^\S+ \S+ \S+ (\S+) \S+ \S+ +(\d+) (?:\Q$path\E|\Q$dir\/$bound\E[0-9a-z]{5})$/;
    open my $table, '<', '/proc/net/unix' or return;
    while (readline $table) { $sockets{$2} = 1 if /$names/ && hex($1) & 0x10000 }
    return %sockets;
}

sub holds_socket {
    my ($pid, %sockets) = @_;
    opendir my $dir, "/proc/$pid/fd" or return 0;
    return scalar grep { (readlink "/proc/$pid/fd/$_" || '') =~ /^socket:\[(\d+)\]$/ && $sockets{$1} } readdir $dir;
}

# " (program, pid N)" for who listens at a path, or '' where that can't be seen.
sub holder {
    my ($path) = @_;
    my %sockets = listening_sockets($path) or return '';
    opendir my $proc, '/proc' or return '';
    for my $pid (grep { /^\d+$/ } readdir $proc) {
        next if !holds_socket($pid, %sockets);
        open my $comm, '<', "/proc/$pid/comm" or next;
        chomp(my $name = readline $comm);
        return " ($name, pid $pid)";
    }
    return '';
}

# A relay to the main socket of an agent elsewhere answers as that agent does, and stopping that one
# would end the agent behind it: so the agent's name for its socket has to be this socket, and its
# process one that holds it.
sub is_own_agent {
    my ($path, $pid, $name) = @_;
    return 0 if $pid !~ /^\d+$/ || identity(stat $name) ne identity(stat $path);
    my %sockets = listening_sockets($path);
    # gpg-agent hides its descriptors from whoever may not trace it: then nobody is seen to hold the socket.
    return !%sockets || holds_socket($pid, %sockets) || holder($path) eq '';
}

sub leads_to_host {
    my ($path, $kind) = @_;
    return 0 if !%host_socket;
    my $dir = directory_of($path);
    my @names = ($path, $kind eq ASSUAN ? map { "$dir/$_" } qw(S.gpg-agent S.gpg-agent.extra) : ());
    return scalar grep { $host_socket{identity(stat $_)} } @names;
}

my %connect_error = (
    ECONNREFUSED() => 'dead',
    ENOENT()       => 'nothing',
    EACCES()       => 'foreign-file',
    EPROTOTYPE()   => 'foreign-file',
);

# What is at a path: nothing, dead, own-agent, forward, hung, foreign-file or host-agent; with its
# identity, and the open connection to an agent of the target's own.
sub probe {
    my ($path, $kind) = @_;
    # First of all, so that the host's own agent is never asked anything.
    return {state => 'host-agent'} if leads_to_host($path, $kind);
    my @stat = lstat $path or return {state => 'nothing', identity => ''};
    my $found = {identity => identity(@stat), state => 'foreign-file'};
    return $found if !S_ISSOCK($stat[2]);

    my $left = $probe_seconds;
    socket(my $socket, AF_UNIX, SOCK_STREAM, 0) or die "socket: $!";
    nonblocking($socket);
    until (connect $socket, pack_sockaddr_un($path)) {
        my $error = $! + 0;
        my $state = $connect_error{$error};
        # A socket made a moment ago may belong to a program that has yet to call listen().
        if ($error == EAGAIN && $left > 0 || $error == ECONNREFUSED && time <= $stat[10] && $left > 0) {
            select undef, undef, undef, 0.05;
            $left -= 0.05;
            next;
        }
        $found->{state} = $state || 'hung';
        return $found;
    }
    my ($answer, $pid, $name) = ask($socket, $kind, \$left);
    $found->{state} = !$answer ? 'hung'
        : $answer eq 'unrestricted' && is_own_agent($path, $pid, $name) ? 'own-agent' : 'forward';
    @$found{qw(connection pid)} = ($socket, $pid) if $found->{state} eq 'own-agent';
    return $found;
}

# Dies for what must not be replaced.
sub refuse_if_taken {
    my ($path, $takeover, $found) = @_;
    my $state = $found->{state};
    my $what = "can't listen on $path";
    fail_with($what, 'it leads to the agent of the host itself, which a bridge would cut off from its own keys',
        'No bridge is needed here: programs already talk to that agent.') if $state eq 'host-agent';
    fail_with($what, 'something that is not a socket we may use is there',
        'Move it away if nothing needs it, then start again.') if $state eq 'foreign-file';
    fail_with($what, 'another forward listens there' . holder($path) . ', so signing may already work here',
        'Try to sign; if that fails, stop that program, or start with --takeover to take its place.')
        if $state eq 'forward' && !$takeover;
}

# Returns when the agent is gone: a connection that it held closes after it has removed its sockets,
# which it does by name.
sub stop_own_agent {
    my ($path, $connection) = @_;
    gpgconf('--kill', 'gpg-agent');
    my $left = 5;
    while (wait_for($connection, \$left)) {
        my $n = sysread $connection, my $rest, 4096;
        return if defined $n ? !$n : $! != EAGAIN && $! != EINTR;
    }
    fail_with("can't stop the gpg-agent on $path", 'it is still there after it was told to',
        'End it with `gpgconf --kill gpg-agent` and start again.');
}

# Deals with what is at a path so that it may be replaced, or dies. Returns what was there, the identity
# of what is there now ('' for nothing), and words about it for a person.
sub clear_place {
    my ($path, $kind, $takeover) = @_;
    my $found = probe($path, $kind);
    refuse_if_taken($path, $takeover, $found);
    my $state = $found->{state};
    my $said = '';
    if ($state eq 'own-agent') {
        stop_own_agent($path, $found->{connection});
        $said = "stopped the target's own gpg-agent (pid $found->{pid}), which listened on $path";
    }
    elsif ($state eq 'hung')    { $said = "replaced the socket $path: its listener" . holder($path) . ' does not answer' }
    elsif ($state eq 'forward') { $said = "took $path over from another forward" . holder($path) }
    # What an agent left behind may be replaced like a dead socket; a new thing has to be looked at.
    my $there = identity(lstat $path);
    return ($there && $there ne $found->{identity} ? 'changed' : $state, $there, $said);
}

# Listening.

sub prepare_directory {
    my ($dir) = @_;
    my $unusable = sub { fail_with("can't put a socket into $dir", $_[0],
        'Make it a writable directory of your own with mode 0700.') };
    make_directory($dir, $unusable);
    my @stat = stat $dir or $unusable->("$!");
    $unusable->('it is not a directory') if !S_ISDIR($stat[2]);
    return if !($stat[2] & 077);
    my $mode = sprintf '0%o', $stat[2] & 07777;
    $unusable->("it belongs to user $stat[4] and others can enter it (mode $mode)") if $stat[4] != $>;
    # Root owns /tmp and /run: closing such a directory to everybody else would break the system.
    $unusable->("it is shared with other users (mode $mode)") if $stat[2] & 01000 || $dir =~ m{^/[^/]*$};
    chmod $stat[2] & 0700, $dir or $unusable->("$!");
    notice("$dir had mode $mode: set to 0700, so that only you can enter it");
}

sub make_directory {
    my ($dir, $unusable) = @_;
    return if -e $dir;
    make_directory(directory_of($dir), $unusable);
    my $mask = umask 077;
    my $made = mkdir $dir, 0700;
    my $error = $!;
    umask $mask;
    if ($made) { push @made_dirs, $dir }
    elsif ($error != EEXIST) { $unusable->("$error") }
}

# Listens under a temporary name in the directory of a path, so that the socket has its mode before it
# has its name. No longer than the shortest final name, agent.sock.
sub bind_beside {
    my ($path) = @_;
    my $dir = directory_of($path);
    socket(my $handle, AF_UNIX, SOCK_STREAM, 0) or die "socket: $!";
    my $temporary = "$dir/" . temporary_start($path) . join '', map { ('a' .. 'z', 0 .. 9)[rand 36] } 1 .. 5;
    my $mask = umask 0177;
    my $bound = bind($handle, pack_sockaddr_un($temporary)) && chmod(0600, $temporary) && listen($handle, $backlog);
    my $error = $!;
    umask $mask;
    if (!$bound) {
        unlink $temporary;
        fail_with("can't put a socket into $dir", "$error", 'Make it a writable directory of your own with mode 0700.');
    }
    nonblocking($handle);
    return ($handle, $temporary);
}

# Gives the socket its name, if what is there is still what was looked at; without a gap when it replaces
# something. False if not.
sub place {
    my ($temporary, $path, $there) = @_;
    if ($there eq '') {
        if (link $temporary, $path) { unlink $temporary; return 1 }
        return 0 if $! == EEXIST;    # other errors: no hard links to sockets on this file system
    }
    return 0 if identity(lstat $path) ne $there;
    return rename $temporary, $path;
}

# Puts a listening socket at its place, or dies. Returns the handle and the file's identity.
sub take_place {
    my ($path, $kind, $takeover) = @_;
    for (1 .. 6) {
        my ($state, $there, $said) = clear_place($path, $kind, $takeover);
        next if $state eq 'changed';
        prepare_directory(directory_of($path));
        my ($handle, $temporary) = bind_beside($path);
        if (place($temporary, $path, $there)) {
            notice($said) if $said;
            return ($handle, identity(lstat $path));
        }
        unlink $temporary;
    }
    fail_with("can't listen on $path", 'something new keeps appearing there', 'Stop it and start again.');
}

sub socket_path {
    my ($kind) = @_;
    my $path;
    if ($kind eq ASSUAN) { $path = gpgconf('--list-dirs', 'agent-socket') }
    else {
        my $home = $ENV{HOME} || (getpwuid $>)[7] || '/';
        $path = setting('ssh-dir', "$home/.ssh") . '/agent.sock';
        $path =~ s{//+}{/}g;
    }
    my $bytes = length $path;
    fail_with("can't listen on $path", "its path has $bytes bytes and a socket's may have " . PATH_MAX,
        'Use a home or GNUPGHOME with a shorter path, or run `gpgconf --create-socketdir`.') if $bytes > PATH_MAX;
    return $path;
}

sub establish {
    my ($path, $kind) = @_;
    my ($handle, $identity) = take_place($path, $kind, setting('takeover', 0));
    my $listener = {kind => $kind, path => $path, identity => $identity, complaint => ''};
    attach($listener, $handle);
    push @listeners, $listener;
}

sub attach {
    my ($listener, $handle) = @_;
    $listener->{handle} = $handle;
    my $fd = $listener->{fd} = fileno $handle;
    vec($readers, $fd, 1) = $accepting;
    $on_read[$fd] = sub { accept_clients($listener) };
}

sub accept_from_now_on {
    my ($on) = @_;
    $accepting = $on;
    vec($readers, $_->{fd}, 1) = $on for @listeners;
}

# Something else at our path is noticed here and the place taken back; but not from a forward, which
# somebody put there on purpose: two bridges that both insist would never end.
sub check_place {
    my ($listener) = @_;
    my ($path, $kind) = @$listener{qw(path kind)};
    return if $listener->{busy} || identity(lstat $path) eq $listener->{identity};
    $listener->{busy} = 1;
    # Asking and stopping an agent takes time, in which the streams go on.
    in_child(sub { clear_place($path, $kind, 0) }, sub {
        my ($error, $state, $there, $said) = @_;
        $listener->{busy} = 0;
        $error ||= eval { $state eq 'changed' || take_back($listener, $there, $said); 1 } ? '' : reason($@);
        note("something replaced the socket $path: $error") if $error && $error ne $listener->{complaint};
        $listener->{complaint} = $error;
    });
}

sub take_back {
    my ($listener, $there, $said) = @_;
    my $path = $listener->{path};
    prepare_directory(directory_of($path));
    my ($handle, $temporary) = bind_beside($path);
    if (!place($temporary, $path, $there)) {
        unlink $temporary;
        return;
    }
    note($said) if $said;
    note("something replaced or removed the socket $path: took its place back");
    $accept_batch = ACCEPT_BATCH;
    accept_clients($listener) if $accepting;    # those who had connected to the old one
    vec($readers, $listener->{fd}, 1) = 0;
    $on_read[$listener->{fd}] = undef;
    close $listener->{handle};
    $listener->{identity} = identity(lstat $path);
    attach($listener, $handle);
}

# Usually one client comes at a time, and asking for a second costs a call that fails: so more are asked for
# only while they do come.
sub accept_clients {
    my ($listener) = @_;
    # The handles get no buffers, which are never used here and take four system calls to set up.
    BEGIN { ${^OPEN} = ":unix\0:unix" }
    for (1 .. $accept_batch) {
        return accept_from_now_on(0) if keys %streams >= $max_streams;
        my $client;
        if (!accept $client, $listener->{handle}) {
            next if $! == EINTR || $! == ECONNABORTED;
            $accept_batch = 1;
            # Without descriptors the clients wait in the backlog, until a stream ends.
            accept_from_now_on(0) if $! == EMFILE || $! == ENFILE;
            return;
        }
        fcntl $client, F_SETFL, O_RDWR | O_NONBLOCK;
        my $fd = fileno $client;
        my $stream = [++$last_id, $client, $fd, '', CREDIT, CREDIT, 0, 0, 0];
        $streams{$last_id} = $by_fd[$fd] = $stream;
        vec($readers, $fd, 1) = 1;
        frame(OPEN, $last_id, $listener->{kind});
    }
    $accept_batch *= 2 if $accept_batch < ACCEPT_BATCH;
}

# Streams.

sub forget {
    my ($stream) = @_;
    my $fd = $stream->[FD];
    vec($readers, $fd, 1) = 0;
    watch_write($fd, 0) if $writing;
    undef $body_stream if $body_stream && $body_stream == $stream;
    $by_fd[$fd] = undef;
    delete $streams{$stream->[ID]};
    close $stream->[HANDLE];
    accept_from_now_on(1) if !$accepting && $is_ready;
}

sub end_stream {
    my ($stream) = @_;
    frame(CLOSE, $stream->[ID], '') if !$stream->[ENDING];
    forget($stream);
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
    my $again = !defined $n && ($! == EAGAIN || $! == EINTR);
    substr($out, $at) = '' if length $out > $at;
    end_stream($stream) if !$again;
}

sub client_writable {
    my ($stream) = @_;
    my $n = syswrite $stream->[HANDLE], $stream->[QUEUE];
    if (!defined $n) {
        return if $! == EAGAIN || $! == EINTR;
        $n = length $stream->[QUEUE];
        $stream->[DEAF] = 1;
    }
    substr $stream->[QUEUE], 0, $n, '';
    $stream->[TAKEN] += $n;
    if (!length $stream->[QUEUE]) {
        watch_write($stream->[FD], 0);
        return forget($stream) if $stream->[ENDING];
    }
    grant($stream) if $credit_used && $stream->[TAKEN] >= GRANT && !$stream->[ENDING];
}

# Keeps what a client's socket did not take of the $count bytes at $at of what came from the host: it took
# $n, or undef for an error. Returns how many of them count as delivered.
sub undelivered {
    my ($stream, $at, $count, $n) = @_;
    $stream->[DEAF] = 1 if !defined $n && $! != EAGAIN && $! != EINTR;
    return $count if $stream->[DEAF];
    $n ||= 0;
    $stream->[QUEUE] .= substr $in, $at + $n, $count - $n;
    watch_write($stream->[FD], 1);
    if (!$credit_used && length $stream->[QUEUE] > QUEUE_MAX) {
        note("stream $stream->[ID] closed: its client does not read");
        end_stream($stream);
    }
    return $n;
}

# Frames from the host.

# Every byte passes this or serve: what nearly always happens is written out in them, and has no call but
# the system's.
sub host_readable {
    my $read = sysread STDIN, $in, 4 * READ_SIZE, length $in;
    if (!$read) {
        return if !defined $read && ($! == EAGAIN || $! == EINTR);
        finish(0);
    }
    my ($at, $end) = (0, length $in);
    while ($at < $end) {
        if (!$body) {
            last if $end - $at < 4;
            # The length is checked as soon as it is there; what has not come yet is undefined.
            my ($length, $type, $id) = unpack 'NCN', substr $in, $at, HEADER;
            if ($length < LENGTH_MIN || $length > LENGTH_MAX) {
                fail("the bridge broke: the host announced a frame of $length bytes, and only " . LENGTH_MIN . ' to '
                    . LENGTH_MAX . ' are possible. Start the bridge again.');
            }
            last if !defined $id;
            settle_credit(0) if !$credit_used && $credit_binds && ($type == DATA || $type == CLOSE);
            if ($type != DATA) {
                last if $end - $at < 4 + $length;
                my $payload = $length - LENGTH_MIN;
                if    ($type == CLOSE)  { host_closed($streams{$id}) if $streams{$id} }
                elsif ($type == WINDOW) { host_granted($id, unpack 'N', substr $in, $at + HEADER, 4) if $payload == 4 }
                elsif ($type == PUBKEY) { keys_arrived(substr $in, $at + HEADER, $payload) }
                $at += 4 + $length;
                next;
            }
            $at += HEADER;
            $body = $length - LENGTH_MIN;
            $body_stream = $streams{$id};
            if ($body_stream && ($body_stream->[ENDING] || ($body_stream->[MAY_GET] -= $body) < 0 && $credit_used)) {
                refuse_data($body_stream);
            }
        }
        my $count = $end - $at < $body ? $end - $at : $body;
        if ($count && (my $stream = $body_stream)) {
            my $n = length $stream->[QUEUE] || $stream->[DEAF] ? 0 : syswrite $stream->[HANDLE], $in, $count, $at;
            $n = undelivered($stream, $at, $count, $n) if !$n || $n < $count;
            grant($stream) if ($stream->[TAKEN] += $n) >= GRANT && $credit_used;
        }
        $at += $count;
        $body -= $count;
    }
    if ($at == $end) { $in = '' }
    else             { substr $in, 0, $at, '' }
}

# For a stream that is ending DATA is dropped; else its credit is overdrawn.
sub refuse_data {
    my ($stream) = @_;
    undef $body_stream;
    return if $stream->[ENDING];
    note("stream $stream->[ID] closed: the host sent more than its credit");
    end_stream($stream);
}

sub host_closed {
    my ($stream) = @_;
    return forget($stream) if !length $stream->[QUEUE];
    $stream->[ENDING] = 1;
    vec($readers, $stream->[FD], 1) = 0;
}

sub settle_credit {
    my ($used) = @_;
    $credit_used = $credit_binds = $used;
    for my $stream (grep { !$_->[ENDING] } values %streams) {
        vec($readers, $stream->[FD], 1) = !$used || $stream->[MAY_SEND] > 0 ? 1 : 0;
        grant($stream) if $used && $stream->[TAKEN] >= GRANT;
    }
}

sub host_granted {
    my ($id, $credit) = @_;
    settle_credit(1) if !$credit_used;
    my $stream = $streams{$id} or return;
    return if $stream->[ENDING];
    $stream->[MAY_SEND] += $credit;
    vec($readers, $stream->[FD], 1) = 1 if $stream->[MAY_SEND] > 0;
}

# Public keys.

my $gpg_path;           # where the gpg socket will be, once that is known to be possible
my $gpg_pending = 0;    # the first PUBKEY has not been dealt with yet

# Options with which a user has put the keyring or the trust database somewhere else.
my $other_keyring =
    qr/^\s*(?:--)?(?:no-default-keyring|primary-keyring|keyring|no-keyring|trustdb-name|use-keyboxd)\b/;

sub keeps_keys_elsewhere {
    my ($home) = @_;
    for my $file (qw(gpg.conf common.conf)) {
        open my $options, '<', "$home/$file" or next;
        return 1 if grep { /$other_keyring/ } readline $options;
    }
    return 0;
}

# gpg on the user's keyring and trust database. They are named, under a home that does not exist: in its
# own home gpg asks the agent about every new key, and that would be the host's.
sub keyring_program {
    my ($home) = @_;
    my @gpg = (find_program('gpg'), qw(--batch --no-tty --quiet --no-autostart --no-auto-check-trustdb));
    return @gpg if keeps_keys_elsewhere($home);
    my $ring = -e "$home/pubring.gpg" && !-e "$home/pubring.kbx" ? 'pubring.gpg' : 'pubring.kbx';
    return (@gpg, '--homedir', "$home/.no-agent-here", qw(--no-options --no-default-keyring --no-random-seed-file),
        '--keyring', "$home/$ring", '--trustdb-name', "$home/trustdb.gpg");
}

# Returns how many keys came, were new, and were there already.
sub import_keys {
    my ($bytes) = @_;
    my $what = "can't import the host's public keys";
    my $fix = 'Check that `gpg --list-keys` works in the target and that its home is writable.';
    my $home = gpgconf('--list-dirs', 'homedir');
    # gpg makes its default home by itself, but never one that was given to it.
    make_directory($home, sub { fail_with($what, "the directory $home can't be made ($_[0])", $fix) });
    my @gpg = keyring_program($home);
    # Without keep-ownertrust gpg clears what the user said about a key before they had it.
    my ($status, $text, $complaint) =
        run($bytes, 3600, @gpg, qw(--status-fd 1 --import-options keep-ownertrust --import));
    # gpg also ends with a bad status when one key among many can't be used.
    fail_with($what, complaint($status, $complaint), $fix) if $status && $text !~ /^\[GNUPG:\] IMPORT_OK /m;
    my @counts = $text =~ /IMPORT_RES (\d+) \d+ (\d+) \d+ (\d+)/ ? ($1, $2, $3) : (0, 0, 0);

    # Without a trust database yet the listing fails, and there is nothing to keep. A user who said
    # "never" (3) about a key meant it; 6 is ultimate.
    my (undef, $listing) = run('', 60, @gpg, '--export-ownertrust');
    my %known = $listing =~ /^([0-9A-F]+):(\d+):/gm;
    my $trust = join '', map { "$_:6:\n" }
        grep { /^(?:[0-9A-F]{40}|[0-9A-F]{64})$/ && ($known{$_} || 0) !~ /^[36]$/ } @{$config{trust} || []};
    if ($trust) {
        ($status, undef, $complaint) = run($trust, 60, @gpg, '--import-ownertrust');
        fail_with($what, complaint($status, $complaint), $fix) if $status;
    }
    return @counts;
}

sub keys_arrived {
    my ($bytes) = @_;
    return if !setting('gpg', 0);
    if (length($keys) + length($bytes) > KEYS_MAX) {
        note('dropped public keys: too many wait for gpg');
        return;
    }
    $keys .= $bytes;
    import_next() if !$importing;
}

# One gpg at a time takes all that has come; the first one is waited for before the gpg socket is made.
sub import_next {
    if (!length $keys || !defined $gpg_path) {
        $keys = '';
        gpg_ready() if $gpg_pending;
        return;
    }
    my $batch = $keys;
    $keys = '';
    $importing = 1;
    in_child(sub { import_keys($batch) }, sub {
        my ($error, $seen, $added, $unchanged) = @_;
        $importing = 0;
        if ($error) { notice($error) }
        else        { note("imported public keys: $seen received, $added new, $unchanged unchanged") }
        gpg_ready() if $gpg_pending;
        import_next() if length $keys;
    });
}

# Start and end.

# What must not be replaced is known before the keyring is touched.
sub look_at_gpg {
    my $path = socket_path(ASSUAN);
    refuse_if_taken($path, setting('takeover', 0), probe($path, ASSUAN));
    my $home = gpgconf('--list-dirs', 'homedir');
    if (opendir my $dir, "$home/private-keys-v1.d") {
        notice("the private keys in $home can't be used while the bridge is up")
            if grep { /\.key$/ } readdir $dir;
    }
    $gpg_path = $path;
}

sub gpg_ready {
    $gpg_pending = 0;
    if (defined $gpg_path) { eval { establish($gpg_path, ASSUAN); 1 } or notice(reason($@)) }
    ready();
}

sub ready {
    fail(@warnings ? @warnings : 'the socket server has nothing to do: no socket was asked for. Ask for one.')
        if !@listeners;
    frame(READY, 0, json({
        version  => \2,
        features => ['window', 'pubkey-more'],
        runtime  => 'perl',
        sockets  => [map { {type => $_->{kind}, path => $_->{path}} } @listeners],
        warnings => \@warnings,
    }));
    $is_ready = 1;
    accept_from_now_on(1);
}

# Tells the host why there is no bridge, and ends.
sub fail {
    my @errors = @_;
    frame(ERROR, 0, substr join("\n", @errors), 0, 60_000);
    if (my $flags = fcntl STDOUT, F_GETFL, 0) { fcntl STDOUT, F_SETFL, $flags & ~O_NONBLOCK }
    while (length $out) {
        my $n = syswrite STDOUT, $out;
        last if !defined $n && $! != EINTR;
        substr $out, 0, $n || 0, '';
    }
    finish(1);
}

# Removes what is ours and ends.
sub finish {
    my ($status) = @_;
    for my $listener (@listeners) {
        unlink $listener->{path} if identity(lstat $listener->{path}) eq $listener->{identity};
    }
    rmdir $_ for reverse @made_dirs;    # a directory that is in use by now stays
    for my $pid (keys %jobs) {
        kill 'TERM', -$pid, $pid;
        local $SIG{ALRM} = sub { kill 'KILL', -$pid, $pid };
        alarm 2;
        waitpid $pid, 0;
        alarm 0;
    }
    exit $status;
}

sub flush {
    my $n = syswrite STDOUT, $out;
    if (!defined $n) {
        return if $! == EINTR;
        finish(0) if $! != EAGAIN;
        $n = 0;
    }
    if ($n == length $out) { $out = '' }
    else                   { substr $out, 0, $n, '' }
    watch_write(1, length $out ? 1 : 0) if $writing || length $out;
}

# Writes what waits for the descriptors in a vector. Returns how many they are.
sub write_ready {
    my $bits = unpack 'b*', $_[0];
    my ($fd, $count) = (0, 0);
    while (($fd = index $bits, '1', $fd + 1) > 0) {
        $count++;
        if ($fd == 1) { flush() if length $out }
        elsif (my $stream = $by_fd[$fd]) { client_writable($stream) }
    }
    return $count;
}

sub serve {
    my $next_check = time + $watch_seconds;
    my ($r, $w, $n, $left, $bits, $fd, $at, $read);
    while (1) {
        return finish(128 + $signal) if $signal;
        $r = length $out > OUT_HIGH ? $control : $readers;
        $w = $writers;
        $n = $left = select $r, $w, undef, $watch_seconds;
        if ($n > 0) {
            if (vec $r, 0, 1) {
                host_readable();
                $left--;
            }
            if ($left) {
                $left -= write_ready($w) if length $w;
                $bits = unpack 'b*', $r;
                # Around once, from behind the client where the turn before had to stop.
                $fd = $stopped_at;
                $stopped_at = 0;
            }
            while ($left-- > 0) {
                $fd = index $bits, '1', $fd + 1;
                last if $fd < 0 && ($fd = index $bits, '1', 1) < 0;
                my $stream = $by_fd[$fd];
                if (!$stream) {
                    $on_read[$fd]->() if $on_read[$fd];
                    next;
                }
                # A frame of the same turn may have taken its credit, or ended it.
                next if !vec $readers, $fd, 1;
                # Read behind the place of its header in what goes to the host: nothing is copied.
                $at = length $out;
                $read = sysread $stream->[HANDLE], $out,
                    $credit_binds && $stream->[MAY_SEND] < READ_SIZE ? $stream->[MAY_SEND] : READ_SIZE, $at + HEADER;
                if (!$read) {
                    nothing_read($stream, $at, $read);
                    next;
                }
                substr $out, $at, HEADER, pack 'NCN', $read + LENGTH_MIN, DATA, $stream->[ID];
                vec($readers, $fd, 1) = 0 if ($stream->[MAY_SEND] -= $read) <= 0 && $credit_binds;
                next if length $out <= OUT_HIGH;
                flush();
                next if length $out <= OUT_HIGH;
                # The host takes no more for now.
                $stopped_at = $fd;
                last;
            }
            flush() if length $out;
        }
        if ($n <= 0 || time >= $next_check) {
            # Descriptors that were missing may be there again.
            accept_from_now_on(1) if !$accepting && $is_ready && keys %streams < $max_streams;
            check_place($_) for @listeners;
            $next_check = time + $watch_seconds;
        }
    }
}

$0 = 'gpg-bridge socket server';
$SIG{PIPE} = 'IGNORE';
$SIG{TERM} = sub { $signal = 15 };
$SIG{HUP}  = sub { $signal = 1 };
$SIG{INT}  = sub { $signal = 2 };
binmode $_ for \*STDIN, \*STDOUT, \*STDERR;
nonblocking(\*STDOUT);
nonblocking(\*STDERR);
watch_control(0, 1);

eval {
    if (setting('ssh', 0)) { eval { establish(socket_path(SSH), SSH); 1 } or notice(reason($@)) }
    if (setting('gpg', 0)) {
        $gpg_pending = 1;
        eval { look_at_gpg(); 1 } or notice(reason($@));
    }
    else { ready() }
    flush() if length $out;
    serve();
    1;
} or do {
    note("the socket server failed: $@");
    finish(1);
};
