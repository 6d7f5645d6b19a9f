import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { Api } from './api'

const web = path.resolve(import.meta.dirname, '../..')
const binary = process.env['SUNABA_BIN'] ?? path.resolve(web, '../target/debug/sunaba')
const dist = path.resolve(web, 'dist')

/**
 * A real plane with the console that was built, in a folder of its own. It can be killed and started again on the same
 * port and data, as after a power cut. Its sandboxes outlive it, so `close` ends them by the mark that they carry.
 */
export class Plane {
  static async start(): Promise<Plane> {
    needs(binary, 'Build it with `cargo build --bin sunaba`, or say where it is with SUNABA_BIN.')
    needs(path.join(dist, 'index.html'), 'Build the console with `npm run build`.')
    const plane = new Plane(mkdtempSync(path.join(tmpdir(), 'sunaba-e2e-')), await freePort())
    await plane.launch()
    return plane
  }

  readonly url: string
  /** The operator's. The plane makes it up at its first start and keeps it. */
  token = ''
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

  /** Ends it as a power cut would: no goodbye to anybody. Sandboxes go on. */
  async kill() {
    const child = this.child
    if (child === null) return
    this.child = null
    const gone = once(child, 'exit')
    child.kill('SIGKILL')
    await gone
  }

  /** Starts it again, where and as it was. */
  async restart() {
    await this.launch()
  }

  async close() {
    await this.kill()
    endAllThatCarry(this.data)
    rmSync(this.data, { recursive: true, force: true, maxRetries: 5 })
  }

  private async launch() {
    const child = spawn(
      binary,
      [
        ...['dev', '--port', String(this.port), '--data', this.data, '--web', dist, '--log', 'warn'],
        ...['--agent', 'scripted:hello', '--max-concurrent-tasks-per-org', '50', '--events-per-minute', '1000000'],
        // One at a time in a project: so a test can have a ticket wait.
        ...['--max-concurrent-tasks-per-project', '1'],
      ],
      { stdio: ['ignore', 'pipe', 'pipe'] },
    )
    this.child = child
    const said: string[] = []
    createInterface({ input: child.stderr }).on('line', (line) => said.push(line))
    const link = await new Promise<string>((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`The plane did not start in time:\n${said.join('\n')}`)), 30_000)
      createInterface({ input: child.stdout }).on('line', (line) => {
        said.push(line)
        const ready = /^Sunaba is ready: (\S+)/.exec(line)?.[1]
        if (ready === undefined) return
        clearTimeout(late)
        resolve(ready)
      })
      child.once('exit', (code) => {
        clearTimeout(late)
        reject(new Error(`The plane ended with ${code ?? 'a signal'} before it was ready:\n${said.join('\n')}`))
      })
    })
    this.token = new URL(link).searchParams.get('token') ?? ''
  }
}

function needs(file: string, advice: string) {
  if (!existsSync(file)) throw new Error(`There is no ${file}. ${advice}`)
}

/**
 * A port that nothing listens on, below those that systems give to outgoing connections (from 32768 on Linux, 49152 on
 * macOS). While the plane is down, such a connection could take its port, and the plane could not start again.
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

/** Every process of a sandbox has its folder in its environment, which is inside of the plane's. */
function endAllThatCarry(folder: string) {
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) continue
    try {
      if (readFileSync(`/proc/${name}/environ`, 'utf8').includes(`${folder}/`)) process.kill(Number(name), 'SIGKILL')
    } catch {
      // It has ended meanwhile, or is nobody's of ours.
    }
  }
}
