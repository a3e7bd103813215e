/** Whether a terminal prints a text and obeys nothing in it. */
export function isHarmless(text: string): boolean {
  return !/[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]/u.test(text);
}
