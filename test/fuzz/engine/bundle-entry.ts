export { TARGETS } from '../targets/index.ts';
export { failureOf, fuzz } from './loop.ts';
