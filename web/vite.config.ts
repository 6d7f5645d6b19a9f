import tailwindcss from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import { defineConfig } from 'vitest/config'

// `npm run dev` reloads changes and proxies requests to a control plane, which `cargo xtask dev` starts.
const plane = process.env['SUNABA_PLANE'] ?? 'http://127.0.0.1:18000'

export default defineConfig({
  plugins: [react(), tailwindcss()],
  server: { proxy: { '/api': { target: plane, ws: true } } },
  build: { target: 'es2023', assetsInlineLimit: 0, manifest: true },
  test: { include: ['*.test.ts', 'src/**/*.test.{ts,tsx}'], environment: 'node', restoreMocks: true },
})
