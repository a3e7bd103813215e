import { randomBytes } from 'node:crypto';
import { chmodSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

/** A small JSON file that is this user's alone, shared by all windows; what is no JSON object counts as empty. */
export class PrivateFile<T extends object> {
  #seen: { stamp: string; value: Partial<T> } | undefined;

  constructor(readonly path: string) {}

  /** What the file says now. */
  read(): Partial<T> {
    const stamp = this.#stamp();
    if (this.#seen && this.#seen.stamp === stamp) return this.#seen.value;
    const value = stamp === '' ? {} : this.#parse();
    this.#seen = { stamp, value };
    return value;
  }

  /** Changes the file from what it says at this moment; it is 0600 in a 0700 directory from the first instant. */
  update(change: (value: Partial<T>) => Partial<T>): void {
    this.#seen = undefined;
    const next = change(this.read());
    const directory = dirname(this.path);
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    chmodSync(directory, 0o700); // VS Code may have made it
    const temporary = `${this.path}.${randomBytes(6).toString('hex')}`;
    try {
      writeFileSync(temporary, `${JSON.stringify(next, undefined, 2)}\n`, { mode: 0o600, flag: 'wx' });
      renameSync(temporary, this.path);
    } catch (error) {
      rmSync(temporary, { force: true });
      throw error;
    }
    this.#seen = undefined;
  }

  #stamp(): string {
    const facts = statSync(this.path, { throwIfNoEntry: false, bigint: true });
    return facts ? `${facts.ino} ${facts.mtimeNs} ${facts.size}` : '';
  }

  #parse(): Partial<T> {
    try {
      const value: unknown = JSON.parse(readFileSync(this.path, 'utf8'));
      return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {};
    } catch {
      return {};
    }
  }
}
