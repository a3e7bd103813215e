/*
 * Time per byte of the Assuan scanner and the observer. It should not depend on the size of a response,
 * only on the size of the chunks it comes in. Run: node bench/assuan-linear.mjs [--quick]
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';

const MIB = 1024 * 1024;
const quick = process.argv.includes('--quick');
const SIZES = quick ? [1, 2, 4] : [4, 8, 16, 32, 64];
const CHUNKS = [16, 1024, 64 * 1024];
const ROUND_TRIPS = quick ? 100_000 : 2_000_000;

const source = fileURLToPath(new URL('../packages/core/src/assuan/', import.meta.url));
const directory = await mkdtemp(join(tmpdir(), 'assuan-bench-'));
try {
  const outfile = join(directory, 'assuan.mjs');
  await build({
    stdin: {
      contents: `export * from './block-scanner.ts'; export * from './observer.ts';`,
      resolveDir: source,
    },
    bundle: true,
    platform: 'node',
    format: 'esm',
    outfile,
  });
  const assuan = await import(pathToFileURL(outfile).href);
  measureSizes(assuan);
  measureRoundTrip(assuan);
} finally {
  await rm(directory, { recursive: true, force: true });
}

/** A response of about `size` bytes, in data lines of the usual length. */
function response(size) {
  const line = Buffer.concat([Buffer.from('D '), Buffer.alloc(997, 0x78), Buffer.from('\n')]);
  const lines = Math.floor(size / line.length);
  return Buffer.concat([...Array(lines).fill(line), Buffer.from('OK\n')]);
}

function measureSizes({ BlockScanner, AssuanObserver }) {
  console.log('chunk bytes   response MiB   scanner ns/byte   ns/chunk   observer ns/byte');
  for (const chunkSize of CHUNKS) {
    scan(BlockScanner, response(MIB), chunkSize); // warms the code up
    observe(AssuanObserver, response(MIB), chunkSize);
    for (const mib of SIZES) {
      const bytes = response(mib * MIB - 3);
      const scanned = scan(BlockScanner, bytes, chunkSize);
      const observed = observe(AssuanObserver, bytes, chunkSize);
      const perChunk = (scanned * chunkSize) / bytes.length;
      const columns = [
        String(chunkSize).padStart(11),
        String(mib).padStart(12),
        (scanned / bytes.length).toFixed(3).padStart(15),
        perChunk.toFixed(0).padStart(8),
        (observed / bytes.length).toFixed(3).padStart(16),
      ];
      console.log(columns.join('   '));
    }
  }
}

/** Nanoseconds from the first byte to the block. The chunks are views, made on the way as a socket does. */
function scan(BlockScanner, bytes, chunkSize) {
  const scanner = new BlockScanner({ maxBlock: bytes.length });
  let block;
  const start = process.hrtime.bigint();
  for (let at = 0; at < bytes.length; at += chunkSize) {
    scanner.push(bytes.subarray(at, at + chunkSize));
    block = scanner.next('response');
  }
  const elapsed = Number(process.hrtime.bigint() - start);
  if (!block?.bytes.equals(bytes)) throw new Error('the block is not what was sent');
  return elapsed;
}

function observe(AssuanObserver, bytes, chunkSize) {
  let operations = 0;
  const observer = new AssuanObserver(() => operations++);
  observer.fromAgent(Buffer.from('OK\n'));
  observer.fromClient(Buffer.from('PKDECRYPT\n'));
  const start = process.hrtime.bigint();
  for (let at = 0; at < bytes.length; at += chunkSize) observer.fromAgent(bytes.subarray(at, at + chunkSize));
  const elapsed = Number(process.hrtime.bigint() - start);
  if (operations !== 1) throw new Error('the observer missed the answer');
  return elapsed;
}

/** One small command and one small response, each in one chunk: what nearly every round trip is. */
function measureRoundTrip({ BlockScanner, AssuanObserver }) {
  const command = Buffer.from('GETINFO pid\n');
  const answer = Buffer.from('D 12345\nOK\n');
  const client = new BlockScanner();
  const agent = new BlockScanner();
  const observer = new AssuanObserver(() => {});
  observer.fromAgent(Buffer.from('OK\n'));
  const scanTrip = () => {
    client.push(command);
    client.next('command');
    agent.push(answer);
    agent.next('response');
  };
  const observeTrip = () => {
    observer.fromClient(command);
    observer.fromAgent(answer);
  };
  console.log(`one round trip: scanners ${perCall(scanTrip)} ns, observer ${perCall(observeTrip)} ns`);
}

function perCall(call) {
  for (let i = 0; i < ROUND_TRIPS / 10; i++) call();
  const start = process.hrtime.bigint();
  for (let i = 0; i < ROUND_TRIPS; i++) call();
  return (Number(process.hrtime.bigint() - start) / ROUND_TRIPS).toFixed(0);
}
