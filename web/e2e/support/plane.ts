import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { Api } from './api'

const web = path.resolve(import.meta.dirname, '../..')
const binary = process.env['SUNABA_BIN'] ?? path.resolve(web, '../target/debug/sunaba')
const dist = path.resolve(web, 'dist')

/**
 * A real control plane with the built console and its own data folder. It can be killed and restarted on the same port
 * and data, as after a power failure. Its sandboxes outlive it, so `close` finds them by their environment and ends them.
 */
export class Plane {
  static async start(): Promise<Plane> {
    requireFile(binary, 'Build it with `cargo build --bin sunaba` or set SUNABA_BIN.')
    requireFile(path.join(dist, 'index.html'), 'Build the console with `npm run build`.')
    const plane = new Plane(mkdtempSync(path.join(tmpdir(), 'sunaba-e2e-')), await freePort())
    await plane.launch()
    return plane
  }

  readonly url: string
  /** The operator token, which the control plane generates at its first start. */
  token = ''
  /** The link that it printed at its last start. */
  link = ''
  private readonly data: string
  private readonly port: number
  private child: ChildProcess | null = null

  private constructor(data: string, port: number) {
    this.data = data
    this.port = port
    this.url = `http://127.0.0.1:${port}`
  }

  get api(): Api {
    return new Api(this.url, this.token)
  }

  /** Another link, from the command for it. */
  async newLink(): Promise<string> {
    const { stdout } = await promisify(execFile)(binary, ['link', '--url', this.url, '--data', this.data])
    return stdout.trim()
  }

  /** Kills the process without a shutdown, as a power failure would. Sandboxes continue. */
  async kill() {
    const child = this.child
    if (child === null) return
    this.child = null
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }

  /** Restarts it with the same port and data. */
  async restart() {
    await this.launch()
  }

  async close() {
    await this.kill()
    killSandboxes(this.data)
    rmSync(this.data, { recursive: true, force: true, maxRetries: 5 })
  }

  private async launch() {
    const child = spawn(
      binary,
      [
        ...['dev', '--port', String(this.port), '--data', this.data, '--web', dist, '--log', 'warn'],
        ...['--agent', 'scripted:hello', '--max-concurrent-tasks-per-org', '50', '--sandbox-quota', '1000000/4G'],
        ...['--org-quota', '1000000/4G'],
        // Tests have their own scripts.
        '--allow-agent-commands',
        // One task per project, so that a test can make a ticket wait.
        ...['--max-concurrent-tasks-per-project', '1'],
      ],
      { stdio: ['ignore', 'pipe', 'pipe'] },
    )
    this.child = child
    const output: string[] = []
    createInterface({ input: child.stderr }).on('line', (line) => output.push(line))
    this.link = await new Promise<string>((resolve, reject) => {
      const timeout = setTimeout(
        () => reject(new Error(`The control plane did not start in time:\n${output.join('\n')}`)),
        30_000,
      )
      createInterface({ input: child.stdout }).on('line', (line) => {
        output.push(line)
        const ready = /^Sunaba is ready: (\S+)/.exec(line)?.[1]
        if (ready === undefined) return
        clearTimeout(timeout)
        resolve(ready)
      })
      child.once('exit', (code) => {
        clearTimeout(timeout)
        reject(
          new Error(`The control plane exited with ${code ?? 'a signal'} before it was ready:\n${output.join('\n')}`),
        )
      })
    })
    this.token = readFileSync(path.join(this.data, 'plane/operator-token'), 'utf8').trim()
  }
}

function requireFile(file: string, advice: string) {
  if (!existsSync(file)) throw new Error(`${file} does not exist. ${advice}`)
}

/**
 * A free port below the ephemeral range (from 32768 on Linux, 49152 on macOS). While the control plane is down, an
 * outgoing connection could take a port of that range, and the control plane could not restart.
 */
async function freePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000)
    const server = createServer()
    const free = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false))
      server.listen(port, '127.0.0.1', () => resolve(true))
    })
    if (!free) continue
    server.close()
    await once(server, 'close')
    return port
  }
}

/** Every process of a sandbox has its folder, which is inside the data folder, in its environment. */
function killSandboxes(folder: string) {
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) continue
    try {
      if (readFileSync(`/proc/${name}/environ`, 'utf8').includes(`${folder}/`)) process.kill(Number(name), 'SIGKILL')
    } catch {
      // The process has exited, or belongs to another user.
    }
  }
}
