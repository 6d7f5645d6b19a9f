import { Boxes, Columns2, type LucideIcon, Moon, Sun, SunMoon, Terminal } from 'lucide-react'
import { type ReactNode, useState } from 'react'
import { NavLink } from 'react-router'
import { classes } from '../util/classes'
import { entriesOf } from '../util/entries'
import { type MenuPage, pages, paths } from '../util/paths'
import { Account } from './account'
import { Toasts } from './toast'

/** The menu, in this order. */
const icons: Readonly<Record<MenuPage, LucideIcon>> = { command: Terminal, sandboxes: Boxes, compare: Columns2 }

/** The frame of every page: navigation, theme, sign-in. */
export function Shell({ children }: { children: ReactNode }) {
  return (
    <div className="flex h-full flex-col">
      <a
        href="#main"
        className="sr-only focus:not-sr-only focus:absolute focus:top-2 focus:left-2 focus:z-50 focus:rounded focus:bg-surface focus:p-2"
      >
        Skip to content
      </a>
      <header className="flex h-12 shrink-0 items-center gap-1 border-b border-line bg-surface px-2 sm:gap-2 sm:px-4">
        <NavLink
          to={paths.command}
          aria-label="Sunaba"
          className="mr-1 flex items-center gap-2 rounded px-1 font-semibold sm:mr-3"
        >
          <img src="/icon.svg" alt="" className="size-6" />
          <span className="hidden sm:inline">Sunaba</span>
        </NavLink>
        <nav aria-label="Pages" className="flex items-center gap-1">
          {entriesOf(icons).map(([name, Icon]) => (
            <MenuEntry
              key={name}
              to={pages[name].route}
              icon={<Icon size={15} aria-hidden />}
              label={pages[name].menu}
            />
          ))}
        </nav>
        <div className="ml-auto flex items-center gap-1">
          <ThemeButton />
          <Account />
        </div>
      </header>
      <main id="main" tabIndex={-1} className="min-h-0 flex-1 overflow-auto outline-none">
        {children}
      </main>
      <Toasts />
    </div>
  )
}

function MenuEntry({ to, icon, label }: { to: string; icon: ReactNode; label: string }) {
  return (
    <NavLink
      to={to}
      className={({ isActive }) =>
        classes(
          'flex min-h-9 items-center gap-1.5 rounded-md px-2 text-sm sm:px-3',
          isActive ? 'bg-accent-soft font-medium text-accent' : 'text-ink-soft hover:bg-sunken hover:text-ink',
        )
      }
    >
      <span className="hidden sm:inline">{icon}</span>
      {label}
    </NavLink>
  )
}

type Theme = 'system' | 'light' | 'dark'

function ThemeButton() {
  const [theme, setTheme] = useState<Theme>(() => {
    const stored = document.documentElement.dataset['theme']
    return stored === 'light' || stored === 'dark' ? stored : 'system'
  })
  const next: Theme = theme === 'system' ? 'light' : theme === 'light' ? 'dark' : 'system'
  const change = () => {
    if (next === 'system') delete document.documentElement.dataset['theme']
    else document.documentElement.dataset['theme'] = next
    try {
      localStorage.setItem('sunaba.theme', next)
    } catch {
      // Without local storage the theme lasts until the page is closed.
    }
    setTheme(next)
  }
  const Icon = theme === 'system' ? SunMoon : theme === 'light' ? Sun : Moon
  return (
    <button
      type="button"
      onClick={change}
      aria-label={`Theme: ${theme}. Change to ${next}.`}
      title={`Theme: ${theme}`}
      className="inline-grid size-9 place-items-center rounded-md text-ink-soft hover:bg-sunken hover:text-ink"
    >
      <Icon size={16} aria-hidden />
    </button>
  )
}
