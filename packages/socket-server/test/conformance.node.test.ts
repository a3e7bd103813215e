import { conformance } from './conformance/suite.ts';

conformance('node');
