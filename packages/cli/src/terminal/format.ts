/** What is known of a key that was used. */
interface KeyWords {
  key?: string;
  name?: string;
  fingerprint?: string;
}

/** A duration as a person says it. */
export function duration(seconds: number): string {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

/** A short time as a person says it. */
export function milliseconds(ms: number): string {
  return ms < 1_000 ? `${ms} ms` : `${(ms / 1_000).toFixed(1)} s`;
}

/** A number of bytes as a person says it. */
export function byteCount(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  const power = Math.min(Math.floor(Math.log10(bytes) / 3), 4);
  return `${(bytes / 1_000 ** power).toPrecision(3)} ${'kMGT'[power - 1]}B`;
}

/** Whose key something is done with, and the end of its fingerprint, or of the keygrip if that is not known. */
export function keyWords({ key, name, fingerprint = key }: KeyWords): string {
  return [name, fingerprint && shortKey(fingerprint)].filter(Boolean).join(' ');
}

/** A keygrip or fingerprint, cut to what a person compares. */
export function shortKey(key: string): string {
  return key.startsWith('SHA256:') ? key.slice(0, 18) : key.slice(-16);
}

/** An image's ID, cut to what the engines show. */
export function shortImage(id: string): string {
  return id.slice(0, 12);
}

/** How many bridges, in words. */
export function bridgeCount(count: number): string {
  return count === 1 ? 'one bridge' : `${count} bridges`;
}
