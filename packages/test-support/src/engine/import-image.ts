import { runOk } from '../process.ts';
import type { EngineAddress } from './containers.ts';
import { type ImageName, imageKey, imageTar } from './images.ts';

/** A function that imports each image into an engine once, however many ask for it at a time. */
export function importerFor({ program, env }: EngineAddress): (name: ImageName) => Promise<string> {
  const imports = new Map<ImageName, Promise<string>>();
  return (name) => {
    let imported = imports.get(name);
    if (!imported) {
      imported = importImage(name);
      imports.set(name, imported);
      imported.catch(() => imports.delete(name));
    }
    return imported;
  };

  async function importImage(name: ImageName): Promise<string> {
    const reference = `localhost/gpg-bridge-test/${name}:${imageKey(name)}`;
    await runOk(program, ['import', await imageTar(name), reference], { env });
    return reference;
  }
}
