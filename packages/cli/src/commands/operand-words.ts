export { operandWords } from '../targets/operand-words.ts';
