// Before the first paint, so that a page that was asked to be dark never flashes white.
try {
  const theme = localStorage.getItem('sunaba.theme')
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme
} catch {
  // A browser that keeps nothing shows what the system prefers.
}
