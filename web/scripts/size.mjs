// The gzipped size of what a browser loads before it shows a page: index.html, its scripts and styles, and those of the
// page. Fails if a page needs more than 350 KB. Lazily loaded viewers do not count.
import { readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'

const budget = 350_000
const dist = new URL('../dist/', import.meta.url)
const manifest = JSON.parse(readFileSync(new URL('.vite/manifest.json', dist), 'utf8'))

const sizes = new Map()
const size = (file) => {
  if (!sizes.has(file)) sizes.set(file, gzipSync(readFileSync(new URL(file, dist)), { level: 9 }).length)
  return sizes.get(file)
}

/** A chunk and its static imports. */
const files = (name, found = new Set()) => {
  const chunk = manifest[name]
  if (found.has(chunk.file)) return found
  found.add(chunk.file)
  for (const style of chunk.css ?? []) found.add(style)
  for (const needed of chunk.imports ?? []) files(needed, found)
  return found
}

let largest = 0
for (const page of manifest['index.html'].dynamicImports.filter((name) => name.startsWith('src/pages/'))) {
  const first = new Set(['index.html', 'theme.js', ...files('index.html'), ...files(page)])
  const total = [...first].reduce((sum, file) => sum + size(file), 0)
  largest = Math.max(largest, total)
  console.log(`${String(total).padStart(8)}  ${page}, ${first.size} files`)
}
console.log(`${String(largest).padStart(8)}  largest page after gzip; the budget is ${budget}`)
if (largest === 0 || largest > budget) process.exit(1)
