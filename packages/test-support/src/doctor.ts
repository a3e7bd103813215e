import { delimiter } from 'node:path';
import { expect } from 'vitest';
import { type Person, PROGRAM } from './cli.ts';
import { run } from './process.ts';
import { writeScript } from './script.ts';
import { tempDir } from './temp.ts';

/** One line of `gpg-bridge doctor`. */
export interface DoctorCheck {
  id: string;
  status: 'ok' | 'warn' | 'fail';
  detail: string;
  fix: string | null;
}

/** What `gpg-bridge doctor --json` prints. */
export interface DoctorReport {
  ok: boolean;
  checks: DoctorCheck[];
}

/** A person who runs doctor, and types what it says into a shell. */
export class Patient {
  private constructor(
    private readonly person: Person,
    private readonly words: readonly string[],
    /** The environment of the person's shell. */
    readonly env: NodeJS.ProcessEnv,
  ) {}

  /** `words` follow `doctor`: a target, an option. */
  static async create(
    person: Person,
    words: readonly string[] = [],
    env: NodeJS.ProcessEnv = {},
  ): Promise<Patient> {
    const bin = await tempDir();
    await writeScript(bin, 'gpg-bridge', `exec ${process.execPath} ${PROGRAM} "$@"`);
    const path = `${bin}${delimiter}${env.PATH ?? person.env.PATH}`;
    return new Patient(person, words, { ...person.env, ...env, PATH: path });
  }

  /** The same with other words. */
  with(...words: string[]): Patient {
    return new Patient(this.person, words, this.env);
  }

  /** Runs doctor; the exit status has to be what its findings say. */
  async report(): Promise<DoctorReport> {
    const { status, stdout, stderr } = await run('gpg-bridge', ['doctor', ...this.words, '--json'], {
      env: this.env,
    });
    const report = parse(stdout.toString(), stderr);
    expect(status).toBe(report.ok ? 0 : 1);
    return report;
  }

  /** One of its findings; undefined if there was nothing to judge. */
  async check(id: string): Promise<DoctorCheck | undefined> {
    return (await this.report()).checks.find((check) => check.id === id);
  }

  /** Doctor finds this; after what it says was typed into a shell, doctor in that shell finds nothing wrong with it. */
  async isCuredOf(id: string, found: { status: 'warn' | 'fail'; detail: RegExp }, after = ''): Promise<void> {
    const before = await this.check(id);
    expect(before).toMatchObject({ id, status: found.status, detail: expect.stringMatching(found.detail) });
    expect(before?.fix).toBeTruthy();
    const script = `{ ${before!.fix}\n} >&2 && gpg-bridge doctor "$@" --json; status=$?; ${after}\nexit $status`;
    const { stdout, stderr } = await run('sh', ['-c', script, 'sh', ...this.words], { env: this.env });
    const cured = parse(stdout.toString(), `${before!.fix}\n${stderr}`).checks.find(
      (check) => check.id === id,
    );
    expect(cured ?? { status: 'ok' }, `after \`${before!.fix}\``).toMatchObject({ status: 'ok' });
  }
}

function parse(printed: string, context: string): DoctorReport {
  const line = printed.split('\n').findLast((text) => text.startsWith('{"ok"'));
  if (line === undefined) throw new Error(`doctor printed no document:\n${printed}${context}`);
  return JSON.parse(line) as DoctorReport;
}
