/** What of VS Code's `l10n` is used. */
export interface Translator {
  t(message: string, ...args: (string | number)[]): string;
}

let translator: Translator | undefined;

/** Makes `t` speak the language of VS Code. */
export function useTranslator(l10n: Translator | undefined): void {
  translator = l10n;
}

/** A text in the person's language; `{0}` stands for the first argument, and so on. */
export function t(message: string, ...args: (string | number)[]): string {
  if (translator) return translator.t(message, ...args);
  return message.replace(/\{(\d+)\}/g, (whole, index: string) => String(args[Number(index)] ?? whole));
}
