// Runs before the first paint, so that a dark page does not flash white.
try {
  const theme = localStorage.getItem('sunaba.theme')
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme
} catch {
  // Without local storage the system preference applies.
}
