// Runs before the page is drawn, so that it does not flash in the other colours.
try {
  const chosen = localStorage.getItem('kernloom.theme');
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
} catch {
  // No storage: as the system.
}
