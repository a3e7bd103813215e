import { request } from 'node:http';

/** Makes an exec in a container, to be started over the engine's API; returns its id. */
export async function newExec({ socketPath }, id, Cmd) {
  const body = { AttachStdin: true, AttachStdout: true, AttachStderr: true, Tty: false, Cmd };
  return (await post(socketPath, `/containers/${id}/exec`, body)).Id;
}

async function post(socketPath, path, body) {
  return new Promise((resolve, reject) => {
    const asked = request({
      socketPath,
      path,
      method: 'POST',
      headers: { 'content-type': 'application/json' },
    });
    asked.once('error', reject);
    asked.once('response', async (response) => {
      const chunks = [];
      for await (const chunk of response) chunks.push(chunk);
      resolve(JSON.parse(Buffer.concat(chunks).toString()));
    });
    asked.end(JSON.stringify(body));
  });
}
