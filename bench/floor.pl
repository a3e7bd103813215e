# The target's end of the least bridge, in Perl: what floor.c does there, and no more. A frame is taken to
# arrive whole, as a small one does.
#
#   perl floor.pl PATH
use strict;
use warnings;
use Socket;

use constant { DATA => 1, OPEN => 2, CLOSE => 3 };

my ($path) = @ARGV;
my ($id, $readers, $client, $in, $out) = (0, '');
socket my $listener, AF_UNIX, SOCK_STREAM, 0 or die $!;
bind $listener, pack_sockaddr_un($path) or die $!;
listen $listener, 128 or die $!;
vec($readers, 0, 1) = 1;
vec($readers, fileno $listener, 1) = 1;
$SIG{PIPE} = 'IGNORE';

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
        if ($n) { syswrite STDOUT, pack('NCN', 5 + $n, DATA, $id) . $out }
        else    { leave(); syswrite STDOUT, pack 'NCN', 5, CLOSE, $id }
    }
    if (!$client && vec $r, fileno $listener, 1) {
        accept $client, $listener or die $!;
        vec($readers, fileno $client, 1) = 1;
        syswrite STDOUT, pack 'NCNA*', 14, OPEN, ++$id, 'gpg-agent';
    }
}
