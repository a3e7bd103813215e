// Bundles a fuzz target, and counts in it which branches an input takes.
import { build } from 'esbuild';
import { parseAst } from 'vite';

/** The bundle's text with counters in it, and how many there are. They are in `globalThis.fuzzCounters`. */
export async function instrumented(entry) {
  return addCounters(await bundled(entry));
}

/** The text of a bundle. */
export async function bundled(entry) {
  const { outputFiles } = await build({
    entryPoints: [entry],
    bundle: true,
    platform: 'node',
    target: 'node20',
    format: 'cjs',
    write: false,
    logLevel: 'warning',
  });
  return outputFiles[0].text;
}

/** Adds a counter to every function, branch, loop, case and right side of a logical operator. */
export function addCounters(text) {
  const insertions = [];
  let count = 0;
  const insert = (at, piece) => insertions.push({ at, piece });
  const counter = () => `fuzzCounters[${count++}]++`;
  const statement = (node) => {
    if (!node) return;
    if (node.type === 'BlockStatement') insert(node.start + 1, `${counter()};`);
    else {
      insert(node.start, `{${counter()};`);
      insert(node.end, '}');
    }
  };
  const expression = (node) => {
    insert(node.start, `(${counter()},(`);
    insert(node.end, '))');
  };
  const visit = (node) => {
    switch (node.type) {
      case 'FunctionDeclaration':
      case 'FunctionExpression':
        insert(node.body.start + 1, `${counter()};`);
        break;
      case 'ArrowFunctionExpression':
        if (node.body.type === 'BlockStatement') insert(node.body.start + 1, `${counter()};`);
        break;
      case 'IfStatement':
        statement(node.consequent);
        if (node.alternate && node.alternate.type !== 'IfStatement') statement(node.alternate);
        break;
      case 'ForStatement':
      case 'ForOfStatement':
      case 'ForInStatement':
      case 'WhileStatement':
      case 'DoWhileStatement':
        statement(node.body);
        break;
      case 'SwitchCase':
        if (node.consequent[0]) insert(node.consequent[0].start, `${counter()};`);
        break;
      case 'CatchClause':
        insert(node.body.start + 1, `${counter()};`);
        break;
      case 'ConditionalExpression':
        expression(node.consequent);
        expression(node.alternate);
        break;
      case 'LogicalExpression':
        expression(node.right);
        break;
      default:
    }
    for (const value of Object.values(node)) {
      for (const child of Array.isArray(value) ? value : [value]) if (child?.type) visit(child);
    }
  };
  visit(parseAst(text));
  return { text: inserted(text, insertions), count };
}

function inserted(text, insertions) {
  // The sort is stable: what was asked for first at one place stands first, ends of inner nodes before outer ones.
  const ordered = insertions
    .map((insertion, order) => ({ ...insertion, order }))
    .sort(
      (a, b) =>
        a.at - b.at ||
        (isEnd(a) === isEnd(b) ? (isEnd(a) ? b.order - a.order : a.order - b.order) : isEnd(a) ? -1 : 1),
    );
  const parts = ['const fuzzCounters = globalThis.fuzzCounters;'];
  let from = 0;
  for (const { at, piece } of ordered) {
    parts.push(text.slice(from, at), piece);
    from = at;
  }
  return [...parts, text.slice(from)].join('');
}

function isEnd({ piece }) {
  return piece === '}' || piece === '))';
}
