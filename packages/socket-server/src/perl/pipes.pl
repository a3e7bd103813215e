# A way past what carries stdin and stdout, joined to server.pl when it is sent: docs/protocol.md has the exchange. The
# host opens two pipes of this process from outside, if the same kernel runs both and lets it.
use constant { ANSWER_WITHIN => 90 };    # seconds

sub offer_pipes {
    my ($token) = @_;
    pipe my $from_host, my $to_target and pipe my $from_target, my $to_host or die "pipe: $!\n";
    syswrite $to_host, "$token\n";
    syswrite STDOUT, sprintf "PIPES %s %s\n", map { fileno($_) . ':' . (stat $_)[1] } $to_target, $from_target;
    # Whatever carries stdin may have died without a word; nothing has been made yet. g is the loader's.
    alarm ANSWER_WITHIN;
    my $answer = g(1);
    alarm 0;
    return if $answer ne 'y';
    # The old ones stay open for as long as this process runs: whoever has their other ends sees its end by them.
    our @carrier;
    open $carrier[0], '<&', \*STDIN and open $carrier[1], '>&', \*STDOUT
        and open STDIN, '<&', $from_host and open STDOUT, '>&', $to_host or die "dup: $!\n";
}
