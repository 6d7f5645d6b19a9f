import Anser from 'anser'
import { memo } from 'react'
import { classes } from '../util/classes'

/**
 * What a terminal printed, with its colours. It inherits its font and wraps where its parent does.
 *
 * Programs choose colours for a terminal that we do not have. Each is shown as the nearest colour of our own, so that
 * it can be read in both themes.
 */
export const Ansi = memo(function Ansi({ text }: { text: string }) {
  return pieces(text).map((piece, index) => (
    <span key={index} className={piece.className}>
      {piece.text}
    </span>
  ))
})

/** As it would be copied: without colours and what was overwritten. */
export const plainText = (text: string) => Anser.ansiToText(settled(text))

export interface Piece {
  text: string
  className: string | undefined
}

export function pieces(text: string): Piece[] {
  const shown = settled(text)
  if (!shown.includes('\u001b')) return [{ text: shown, className: undefined }]
  return Anser.ansiToJson(shown, { remove_empty: true }).map((entry) => ({
    text: entry.content,
    className: look(entry),
  }))
}

const inks = { red: 'text-bad', yellow: 'text-warn', green: 'text-good', blue: 'text-info', magenta: 'text-accent' }
const papers = { red: 'bg-bad-soft', yellow: 'bg-warn-soft', green: 'bg-good-soft', blue: 'bg-info-soft', magenta: 'bg-accent-soft' }

function look({ fg, bg, decorations }: Anser.AnserJsonEntry): string | undefined {
  const has = (name: (typeof decorations)[number]) => decorations.includes(name)
  const name = classes(
    ink(fg, has('dim')),
    paper(bg),
    has('bold') && 'font-semibold',
    has('italic') && 'italic',
    has('underline') && 'underline',
    has('strikethrough') && 'line-through',
  )
  return name === '' ? undefined : name
}

function ink(colour: string | null, dim: boolean): string | undefined {
  const hue = hueOf(colour)
  if (hue === null) return dim ? 'text-ink-faint' : undefined
  return hue === 'grey' ? 'text-ink-soft' : inks[hue]
}

function paper(colour: string | null): string | undefined {
  const hue = hueOf(colour)
  if (hue === null) return undefined
  return hue === 'grey' ? 'bg-sunken' : papers[hue]
}

/** The nearest of our colours to "r, g, b". */
function hueOf(colour: string | null): keyof typeof inks | 'grey' | null {
  const [red = 0, green = 0, blue = 0] = (colour ?? '').split(',').map(Number)
  if (colour === null || Number.isNaN(red + green + blue)) return null
  const most = Math.max(red, green, blue)
  const spread = most - Math.min(red, green, blue)
  if (spread < 48) return 'grey'
  const sixth =
    most === red ? ((green - blue) / spread + 6) % 6 : most === green ? (blue - red) / spread + 2 : (red - green) / spread + 4
  if (sixth < 0.5 || sixth >= 5.5) return 'red'
  if (sixth < 1.4) return 'yellow'
  if (sixth < 2.7) return 'green'
  return sixth < 4.5 ? 'blue' : 'magenta'
}

// Titles of windows, links and the like: told to a terminal, not to a reader.
const TOLD_TO_THE_TERMINAL = /\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[()][A-Z0-9]|\u001b[=>78cDEHM]/g

/** What would be left on a screen: a carriage return begins its line anew, as progress bars do. */
function settled(text: string): string {
  const told = text.includes('\u001b') ? text.replace(TOLD_TO_THE_TERMINAL, '') : text
  if (!told.includes('\r')) return told
  return told
    .replaceAll('\r\n', '\n')
    .split('\n')
    .map((line) => line.replace(/\r+$/, '').split('\r').at(-1) ?? '')
    .join('\n')
}
