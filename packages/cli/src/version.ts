import manifest from '../package.json' with { type: 'json' };

/** This product's version. */
export const VERSION: string = manifest.version;
