import type { VsCode } from '@gpg-bridge/vscode-shared/vscode-api';

/** The steps of the walkthrough that are done when something is so. */
export type WalkthroughStep = 'remote' | 'allowed' | 'signed' | 'menu';

/** How long a context key stays set. */
const PULSE_MS = 1_000;

/**
 * Ticks the steps of the walkthrough. VS Code ticks a step when its context key becomes true, and never if it was
 * true already when the walkthrough was opened first; so the keys are set for a moment, whenever something new is
 * so and whenever a tab is opened, which may be the walkthrough's.
 */
export class Walkthrough {
  readonly #done = new Set<WalkthroughStep>(['remote']);
  #pulse: NodeJS.Timeout | undefined;

  constructor(private readonly vs: Pick<VsCode, 'window' | 'commands'>) {}

  /** Watches the tabs until it is disposed of. */
  watch(): { dispose(): unknown } {
    const tabs = this.vs.window.tabGroups.onDidChangeTabs(({ opened }) => {
      if (opened.length > 0) this.#tick();
    });
    return {
      dispose: () => {
        clearTimeout(this.#pulse);
        tabs.dispose();
      },
    };
  }

  /** Says that a step is done. */
  done(step: WalkthroughStep): void {
    if (this.#done.has(step)) return;
    this.#done.add(step);
    this.#tick();
  }

  #tick(): void {
    clearTimeout(this.#pulse);
    this.#set(true);
    this.#pulse = setTimeout(() => this.#set(false), PULSE_MS).unref();
  }

  #set(value: boolean): void {
    for (const step of this.#done)
      void this.vs.commands.executeCommand('setContext', `gpgBridge.step.${step}`, value);
  }
}
