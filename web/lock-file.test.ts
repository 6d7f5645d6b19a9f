import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'

/** The platforms that the console is built on. Other platforms in the lock file are not checked. */
const PLATFORMS = ['darwin-arm64', 'darwin-x64', 'linux-arm64', 'linux-x64']

const ADVICE = `
\`npm ci\` fails if web/package-lock.json lacks a native binding, and npm omits bindings that its registry does not have.
In web/package.json ("overrides" for indirect dependencies) choose a version whose bindings are all available, which
\`npm view <binding>@<version>\` shows. Then, in web:
    rm -rf node_modules && npm install --package-lock-only --omit-lockfile-registry-resolved`

interface Package {
  version?: string
  resolved?: string
  optionalDependencies?: Record<string, string>
}
type Packages = Record<string, Package>

// The format: https://docs.npmjs.com/cli/configuring-npm/package-lock-json
const { packages } = JSON.parse(readFileSync(new URL('package-lock.json', import.meta.url), 'utf8')) as {
  packages: Packages
}

/** Resolves a dependency like Node: from the package's own folder upward. */
function resolve(all: Packages, from: string, name: string): Package | undefined {
  for (let place = from; ; place = place.slice(0, Math.max(0, place.lastIndexOf('node_modules/') - 1))) {
    const here = all[place === '' ? `node_modules/${name}` : `${place}/node_modules/${name}`]
    if (here !== undefined || place === '') return here
  }
}

/** Packages whose native binding for each platform is an optional dependency. */
function natives(all: Packages): [string, Record<string, string>][] {
  return Object.entries(all).flatMap(([place, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).some((name) => /(darwin|linux)-(arm64|x64)/.test(name))
      ? [[place, optionalDependencies]]
      : [],
  )
}

/** Bindings that are missing in the lock file. */
function missing(all: Packages): string[] {
  return natives(all).flatMap(([place, options]) =>
    PLATFORMS.flatMap((platform) => {
      const names = Object.keys(options).filter((name) => name.includes(platform))
      if (names.length === 0) return [`${place} has no binding for ${platform}`]
      return names
        .filter((name) => resolve(all, place, name)?.version !== options[name])
        .map((name) => `${place} needs ${name}@${options[name]}`)
    }),
  )
}

describe('the lock file', () => {
  it('has the native bindings of every platform that the console is built on', () => {
    expect(natives(packages).map(([place]) => place)).toEqual(
      expect.arrayContaining(['node_modules/rolldown', 'node_modules/@tailwindcss/oxide', 'node_modules/lightningcss']),
    )
    expect(missing(packages), ADVICE).toEqual([])
  })

  it('fails the check when any binding is removed', () => {
    for (const [name] of Object.entries(packages).filter(([place]) => /(darwin|linux)-(arm64|x64)/.test(place))) {
      const fewer = Object.fromEntries(Object.entries(packages).filter(([place]) => place !== name))
      expect(missing(fewer), name).toHaveLength(1)
    }
  })

  it('contains no registry URLs', () => {
    const named = Object.entries(packages).filter(([, { resolved }]) => resolved !== undefined)
    expect(
      named.map(([place]) => place),
      ADVICE,
    ).toEqual([])
  })
})
