// The Firefox Profiler's own code with a profile: the daemon of profiler-cli (version 0.10.0, see package.json), without a new node for
// each command, as profiler-cli itself would start it. It gives the daemon half a second to start, which busy machines exceed.
'use strict';

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { setTimeout: pause } = require('node:timers/promises');

const CLI = path.join(__dirname, 'node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js');
const TIMEOUT_MS = 300_000;
const POLL_MS = 20;
const NAME = 'check';

class Daemon {
  // Loads a profile; --symbols is the URL of the symbol server.
  static async load(profile, symbols) {
    const daemon = new Daemon(profile, symbols);
    try {
      await daemon.connect();
      while ((await daemon.send({ type: 'status' })).type !== 'ready') {
        await pause(POLL_MS);
      }
      return daemon;
    } catch (error) {
      daemon.close();
      throw error;
    }
  }

  constructor(profile, symbols) {
    // The daemon listens on a socket in this directory, and a socket path is at most 108 bytes long.
    this.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'pq-'));
    this.deadline = Date.now() + TIMEOUT_MS;
    this.waiting = [];
    const options = ['--daemon', path.resolve(profile), '--session', NAME, '--symbol-server', symbols];
    this.process = spawn(process.execPath, [CLI, ...options], {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { ...process.env, PROFILER_CLI_SESSION_DIR: this.folder },
    });
    this.said = '';
    this.process.stderr.setEncoding('utf8').on('data', (text) => (this.said += text));
    this.process.on('error', (error) => (this.said += error.message));
    this.process.on('close', () => (this.closed = true));
  }

  // Until it has written where it listens.
  async connect() {
    const metadata = path.join(this.folder, `${NAME}.json`);
    let listens;
    while (!listens) {
      if (this.closed || Date.now() > this.deadline) {
        throw new Error(`profiler-cli: ${this.said || 'the daemon does not start'}`);
      }
      await pause(POLL_MS);
      try {
        listens = JSON.parse(fs.readFileSync(metadata, 'utf8')).socketPath;
      } catch {
        // It is not written yet, or not completely.
      }
    }
    this.socket = net.connect(listens);
    this.socket.setTimeout(TIMEOUT_MS, () => this.socket.destroy(new Error('profiler-cli: the daemon does not answer')));
    this.socket.on('error', (error) => this.fail(error));
    this.socket.on('close', () => this.fail(new Error(`profiler-cli: the daemon has ended: ${this.said}`)));
    const parts = [];
    this.socket.setEncoding('utf8').on('data', (text) => {
      const lines = text.split('\n');
      parts.push(lines.shift());
      for (const line of lines) {
        this.waiting.shift().resolve(JSON.parse(parts.join('')));
        parts.length = 0;
        parts.push(line);
      }
    });
  }

  fail(error) {
    this.waiting.splice(0).forEach(({ reject }) => reject(error));
  }

  // A line of JSON each; answers come in the same order.
  async send(message) {
    const answer = await new Promise((resolve, reject) => {
      this.waiting.push({ resolve, reject });
      this.socket.write(`${JSON.stringify(message)}\n`);
    });
    if (answer.type === 'error') {
      throw new Error(`profiler-cli: ${answer.error}`);
    }
    return answer;
  }

  // The result of a command, as `profiler-cli COMMAND SUBCOMMAND --json` prints it.
  async ask(command, subcommand, options) {
    return (await this.send({ type: 'command', command: { command, subcommand, ...options } })).result;
  }

  close() {
    this.socket?.destroy();
    this.process.kill();
    fs.rmSync(this.folder, { recursive: true, force: true });
  }
}

module.exports = { CLI, Daemon };
