/** A greeting names the process that it greets, which differs from one connection to the next. */
export function masked(transcript: string): string {
  return transcript.replace(/^(OK Pleased to meet you)[^\n]*/, '$1');
}

/** Lines that end a response. */
const ENDS = /^(?:OK|ERR|INQUIRE)\b/gm;
/** What follows the answers of the target's own end where nobody else is to be had. */
const REFUSALS = /(?<=^|\n)(?:ERR 67108941 No agent running[^\n]*\n)+OK closing connection\n$/;
const REFUSAL = /ERR 67108941 No agent running[^\n]*\n$/;
/** A session that never reached the agent. */
const REFUSED = /^OK GPG Bridge[^\n]*\n(?:ERR 67108941 [^\n]*\n)*(?:OK closing connection\n)?$/;

/**
 * What a client was told, beside all that it would be told without a fault. Either everything, or the beginning
 * of it with at most one refusal behind it that can't be taken for a part of an answer, or one for each further
 * command; else it is wrong.
 */
export function judge(transcript: string, everything: string): 'everything' | 'error' | 'wrong' {
  const told = masked(transcript);
  if (told === everything) return 'everything';
  if (REFUSED.test(told)) return 'error';
  const refusals = REFUSALS.exec(told);
  if (refusals && everything.startsWith(told.slice(0, refusals.index))) {
    return told.match(ENDS)?.length === everything.match(ENDS)?.length ? 'error' : 'wrong';
  }
  const refusal = REFUSAL.exec(told);
  const answer = refusal ? told.slice(0, refusal.index) : told;
  // Nothing follows the answer to BYE.
  if (answer === everything) return 'wrong';
  if (everything.startsWith(answer)) {
    return !refusal || answer === '' || answer.endsWith('\n') ? 'error' : 'wrong';
  }
  // Half a line of data was ended, so that the refusal is a line of its own.
  const cut = /(?:^|\n)D [^\n]*\n$/.test(answer) && everything.startsWith(answer.slice(0, -1));
  return refusal && cut ? 'error' : 'wrong';
}
