import { once } from 'node:events';
import net from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { wrong } from './programs.mjs';

const QUESTION = 'GETINFO version\n';
/** Answers of one that does not read: more than sockets and credit hold. */
const MANY = 20_000;
const UNREAD_MS = 500;
const TRY_AGAIN_MS = 50;
const MAX_TRIES = 200;
const ANSWER = /^D 2\.[^\n]*\nOK\n/;

function either(emitter, ...events) {
  return new Promise((resolve) => {
    for (const event of events) emitter.once(event, resolve);
  });
}

/** Clients that do not behave as gpg does. Those that stay to the end check every byte. */
export function clients(machine) {
  const connect = async () => {
    const { socket: path } = machine.anyBridge();
    for (let tries = 0; ; tries++) {
      const socket = net.connect({ path, allowHalfOpen: true });
      try {
        await once(socket, 'connect');
        return socket.on('error', () => {});
      } catch (error) {
        // The kernel says so where a listener has more callers than it can hold, gpg-agent or any other.
        if (error.code !== 'EAGAIN' || tries === MAX_TRIES) throw error;
        await delay(TRY_AGAIN_MS);
      }
    }
  };

  /** Everything until the other side ends. */
  async function rest(socket) {
    let text = '';
    if (socket.destroyed) return text;
    socket.setEncoding('latin1').on('data', (piece) => {
      text += piece;
    });
    socket.resume(); // it may have been made to wait
    await either(socket, 'end', 'close');
    socket.destroy();
    return text;
  }

  function check(text, questions) {
    const greeting = /^OK Pleased to meet you[^\n]*\n/.exec(text)?.[0];
    if (!greeting) throw new Error(`no greeting: ${text.slice(0, 200)}`);
    const answers = text.slice(greeting.length);
    const answer = ANSWER.exec(answers)?.[0];
    if (!answer) throw new Error(`no answer: ${answers.slice(0, 200)}`);
    if (answers === `${answer.repeat(questions)}OK closing connection\n`) return;
    // A session that broke has the beginning of that, and an error.
    const lines = answers.replace(/\n?ERR 67108941 No agent running[^\n]*\n$/, '');
    if (!answer.repeat(questions).startsWith(lines.replace(/\n$/, ''))) {
      throw wrong(`answers of ${questions} questions are wrong: …${answers.slice(-300)}`);
    }
    throw new Error(`answers end early: …${answers.slice(-200)}`);
  }

  return [
    {
      name: 'die',
      async once() {
        const socket = await connect();
        socket.write('GETINFO ver');
        if (Math.random() < 0.5) await either(socket, 'data', 'end', 'close');
        socket.destroy();
      },
    },
    {
      name: 'leave early',
      async once() {
        for (let count = 0; count < 20; count++) {
          const socket = await connect();
          socket.write(QUESTION);
          socket.destroy();
        }
      },
    },
    {
      name: 'half-close',
      async once() {
        const socket = await connect();
        socket.end(`${QUESTION.repeat(3)}BYE\n`);
        check(await rest(socket), 3);
      },
    },
    {
      name: 'stop reading',
      async once() {
        const socket = await connect();
        socket.pause();
        socket.write(`${QUESTION.repeat(MANY)}BYE\n`);
        await new Promise((resolve) => setTimeout(resolve, UNREAD_MS));
        if (Math.random() < 0.3) {
          socket.destroy();
          return;
        }
        check(await rest(socket), MANY);
      },
    },
    {
      name: 'stay',
      async once() {
        const socket = await connect();
        const text = rest(socket);
        await new Promise((resolve) => setTimeout(resolve, 1_000 + Math.random() * 2_000));
        socket.end(`${QUESTION}BYE\n`);
        check(await text, 1);
      },
    },
  ];
}
