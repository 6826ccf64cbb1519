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
  // Loads a profile, or the link to one. The options are those of `profiler-cli load`. In a folder that is given, profiler-cli finds the daemon
  // by PROFILER_CLI_SESSION_DIR; otherwise the daemon's folder is removed with it.
  static async load(profile, options, folder) {
    const daemon = new Daemon(profile, options, folder);
    try {
      await daemon.connect();
      while ((await daemon.send({ type: 'status' })).type !== 'ready') {
        daemon.expectTime('the profile is not loaded');
        await pause(POLL_MS);
      }
      return daemon;
    } catch (error) {
      daemon.close();
      throw error;
    }
  }

  constructor(profile, options, folder) {
    // The daemon listens on a socket in this directory, and a socket path is at most 108 bytes long.
    this.folder = folder ?? fs.mkdtempSync(path.join(os.tmpdir(), 'pq-'));
    this.isOurs = !folder;
    this.deadline = Date.now() + TIMEOUT_MS;
    this.waiting = [];
    const what = /^https?:/.test(profile) ? profile : path.resolve(profile);
    this.log = path.join(this.folder, `${NAME}.said`);
    const log = fs.openSync(this.log, 'w');
    this.process = spawn(process.execPath, [CLI, '--daemon', what, '--session', NAME, ...options], {
      detached: true,
      stdio: ['ignore', 'ignore', log],
      env: { ...process.env, PROFILER_CLI_SESSION_DIR: this.folder },
    });
    fs.closeSync(log);
    this.process.on('error', () => (this.closed = true));
    this.process.on('close', () => (this.closed = true));
  }

  get said() {
    return fs.readFileSync(this.log, 'utf8').trim() || 'without a message';
  }

  expectTime(problem) {
    if (Date.now() > this.deadline) {
      throw new Error(`profiler-cli: ${problem}: ${this.said}`);
    }
  }

  // Until it has written where it listens.
  async connect() {
    const metadata = path.join(this.folder, `${NAME}.json`);
    let listens;
    while (!listens) {
      if (this.closed) {
        throw new Error(`profiler-cli: the daemon has ended: ${this.said}`);
      }
      this.expectTime('the daemon does not start');
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
    this.socket.on('close', () => this.fail(new Error('profiler-cli: the daemon has closed the connection')));
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

  // Lets it run on, for profiler-cli.
  leave() {
    this.socket.destroy();
    this.process.unref();
  }

  close() {
    this.socket?.destroy();
    this.process.kill();
    if (this.isOurs) {
      fs.rmSync(this.folder, { recursive: true, force: true });
    }
  }
}

module.exports = { CLI, Daemon };
