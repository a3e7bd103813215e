import { conformance } from './conformance/suite.ts';

conformance('native');
