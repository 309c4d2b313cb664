// Talking to the server that this page came from.

export function apiKey() {
  return sessionStorage.getItem('api_key') || '';
}

function headers() {
  const out = {'content-type': 'application/json'};
  if (apiKey()) out.authorization = 'Bearer ' + apiKey();
  return out;
}

// The error that the body of a refused answer tells, as one sentence.
async function refusal(response) {
  let message = `the server answered ${response.status}`;
  try {
    const body = await response.json();
    if (body.error && body.error.message) message = body.error.message;
  } catch {
    // Not JSON: the status says enough.
  }
  if (response.status === 401) message += ' Enter the API key in the settings.';
  return new Error(message);
}

async function ask(path, options) {
  const response = await fetch(path, {headers: headers(), ...options}).catch((error) => {
    throw error.name === 'AbortError' ? error : new Error('The server does not answer.');
  });
  if (!response.ok) throw await refusal(response);
  return response;
}

const post = (path, body, signal) => ask(path, {method: 'POST', body: JSON.stringify(body), signal});

export async function getJson(path) {
  return (await ask(path)).json();
}

export async function postJson(path, body, signal) {
  return (await post(path, body, signal)).json();
}

// Posts `body` and yields each event of the stream that comes back, parsed, until [DONE].
export async function* stream(path, body, signal) {
  const response = await post(path, body, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = '';
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    held += value;
    const events = held.split('\n\n');
    held = events.pop();
    for (const event of events) {
      for (const line of event.split('\n')) {
        if (!line.startsWith('data:')) continue;
        const data = line.slice(5).trim();
        if (data === '[DONE]') return;
        const chunk = JSON.parse(data);
        if (chunk.error) throw new Error(chunk.error.message);
        yield chunk;
      }
    }
  }
}
