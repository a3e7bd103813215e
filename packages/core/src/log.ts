/** Levels as VS Code's log channels have them. */
export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error';

/**
 * Where log lines go. A line holds command words, sizes and outcomes; never payload, nonce, passphrase
 * or key bytes, at any level.
 */
export type LogCallback = (message: string, level: LogLevel) => void;

/** A log that goes nowhere, for callers that gave none. */
export const noLog: LogCallback = () => {};
