# A way past what carries stdin and stdout, joined to server.pl when it is sent: docs/protocol.md has the exchange. The
# host opens two pipes of this process from outside, if the same kernel runs both and lets it.
sub offer_pipes {
    my ($token) = @_;
    pipe my $from_host, my $to_target and pipe my $from_target, my $to_host or die "pipe: $!\n";
    syswrite $to_host, "$token\n";
    syswrite STDOUT, sprintf "PIPES %s %s\n", map { fileno($_) . ':' . (stat $_)[1] } $to_target, $from_target;
    return if g(1) ne 'y';    # the loader's, which reads so many bytes of stdin
    # The old ones stay open for as long as this process runs: whoever has their other ends sees its end by them.
    our @carrier;
    open $carrier[0], '<&', \*STDIN and open $carrier[1], '>&', \*STDOUT
        and open STDIN, '<&', $from_host and open STDOUT, '>&', $to_host or die "dup: $!\n";
}
