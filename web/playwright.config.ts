import { defineConfig, devices } from '@playwright/test'

/**
 * The console against the real plane: `npm run build`, then `npm run e2e`. Every worker process starts a plane of its
 * own (see e2e/support/plane.ts), out of `SUNABA_BIN` or the debug build next door.
 */
export default defineConfig({
  testDir: 'e2e',
  outputDir: 'test-results/runs',
  fullyParallel: false,
  workers: 2,
  retries: 0,
  forbidOnly: true,
  // A test has a minute, and each thing that it waits for fifteen seconds: a busy machine is slow, not wrong.
  timeout: 60_000,
  expect: { timeout: 15_000 },
  reporter: [['list']],
  use: {
    ...devices['Desktop Chrome'],
    viewport: { width: 1280, height: 800 },
    // `npx playwright test --trace on` shows what happened; always recording it would double the time of all tests.
    screenshot: 'only-on-failure',
    launchOptions: {
      executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
      args: [
        '--no-sandbox',
        '--disable-gpu',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
        '--no-first-run',
      ],
    },
  },
})
