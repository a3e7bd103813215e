# The target's end of the least bridge, in Perl: what floor.c does there, and no more. A frame is taken to
# arrive whole, as a small one does.
#
#   perl floor.pl PATH [ahead]
use strict;
use warnings;
use Socket;

use constant { DATA => 1, OPEN => 2, CLOSE => 3 };
use constant SET => qr/^(?:RESET|OPTION |GETINFO restricted|SIGKEY |SETKEYDESC |SETHASH )/;

my ($path, $ahead) = @ARGV;
my ($id, $readers, $kept, $client, $in, $out) = (0, '', '');
socket my $listener, AF_UNIX, SOCK_STREAM, 0 or die $!;
bind $listener, pack_sockaddr_un($path) or die $!;
listen $listener, 128 or die $!;
vec($readers, 0, 1) = 1;
vec($readers, fileno $listener, 1) = 1;
$SIG{PIPE} = 'IGNORE';

# Takes what a client sent, and tells it what it may be told; returns what goes to the host.
sub take_ahead {
    $kept .= $out;
    my ($line) = $kept =~ /([^\n]*)\n\z/ or return '';
    my $answer = $line =~ /^GETINFO version/ ? "D 9.9\nOK\n" : $line =~ SET ? "OK\n" : '';
    return '' if $answer && syswrite $client, $answer;
    (my $lines, $kept) = ($kept, '');
    return $lines;
}

sub leave { vec($readers, fileno $client, 1) = 0; close $client; undef $client }

while (1) {
    my $r = $readers;
    select $r, undef, undef, undef;
    if (vec $r, 0, 1) {
        sysread STDIN, $in, 65_536 or exit;
        for (my $at = 0; $at < length $in;) {
            my ($length, $type, $stream) = unpack 'NCN', substr $in, $at, 9;
            if    (!$client || $stream != $id) { }
            elsif ($type == DATA)              { syswrite $client, $in, $length - 5, $at + 9 }
            elsif ($type == CLOSE)             { leave() }
            $at += 4 + $length;
        }
    }
    if ($client && vec $r, fileno $client, 1) {
        my $n = sysread $client, $out, 65_536;
        if (!$n) { leave(); syswrite STDOUT, pack 'NCN', 5, CLOSE, $id; next }
        $out = take_ahead() if $ahead;
        syswrite STDOUT, pack('NCN', 5 + length $out, DATA, $id) . $out if length $out;
    }
    if (!$client && vec $r, fileno $listener, 1) {
        accept $client, $listener or die $!;
        vec($readers, fileno $client, 1) = 1;
        syswrite STDOUT, pack 'NCNA*', 14, OPEN, ++$id, 'gpg-agent';
        if ($ahead) { $kept = ''; syswrite $client, "OK\n" }
    }
}
