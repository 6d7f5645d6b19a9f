import { defineConfig, devices } from '@playwright/test'

/**
 * Tests the console with a real control plane: `npm run build`, then `npm run e2e`. Every Playwright worker starts its
 * own (see e2e/support/plane.ts) from `SUNABA_BIN` or the debug build.
 */
export default defineConfig({
  testDir: 'e2e',
  outputDir: 'test-results/runs',
  fullyParallel: false,
  workers: 2,
  retries: 0,
  forbidOnly: true,
  // Generous timeouts, so that a busy machine does not fail tests.
  timeout: 60_000,
  expect: { timeout: 15_000 },
  reporter: [['list']],
  use: {
    ...devices['Desktop Chrome'],
    viewport: { width: 1280, height: 800 },
    // `npx playwright test --trace on` records a trace; recording always would double the duration of the tests.
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
