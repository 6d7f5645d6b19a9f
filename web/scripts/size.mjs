// What a browser loads before it shows the first page: index.html, its scripts, what they import at once, its styles.
// Fails when that is more than 350 KB after gzip.
import { readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'

const budget = 350_000
const dist = new URL('../dist/', import.meta.url)
const manifest = JSON.parse(readFileSync(new URL('.vite/manifest.json', dist), 'utf8'))
const first = new Set(['index.html', 'theme.js'])
const visit = (name) => {
  const chunk = manifest[name]
  if (first.has(chunk.file)) return
  first.add(chunk.file)
  for (const style of chunk.css ?? []) first.add(style)
  for (const needed of chunk.imports ?? []) visit(needed)
}
visit('index.html')
let total = 0
for (const file of first) {
  const bytes = gzipSync(readFileSync(new URL(file, dist)), { level: 9 }).length
  total += bytes
  console.log(`${String(bytes).padStart(8)}  ${file}`)
}
console.log(`${String(total).padStart(8)}  on first load, after gzip; at most ${budget}`)
if (total > budget) process.exit(1)
