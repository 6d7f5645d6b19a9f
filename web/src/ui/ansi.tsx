import Anser from 'anser'
import { memo } from 'react'
import { classes } from '../util/classes'

/**
 * Terminal output with its colours. It inherits font and wrapping from its parent.
 *
 * Programs choose colours for a terminal theme. Each is mapped to the nearest colour of the console, so that it is
 * readable in both themes.
 */
export const Ansi = memo(function Ansi({ text }: { text: string }) {
  return pieces(text).map((piece, index) => (
    <span key={index} className={piece.className}>
      {piece.text}
    </span>
  ))
})

/** Without colours and overwritten text, for copying. */
export const plainText = (text: string) => Anser.ansiToText(finalScreen(text))

export interface Piece {
  text: string
  className: string | undefined
}

export function pieces(text: string): Piece[] {
  const shown = finalScreen(text)
  if (!shown.includes('\u001b')) return [{ text: shown, className: undefined }]
  return Anser.ansiToJson(shown, { remove_empty: true }).map((entry) => ({
    text: entry.content,
    className: classOf(entry),
  }))
}

const textColours = {
  red: 'text-bad',
  yellow: 'text-warn',
  green: 'text-good',
  blue: 'text-info',
  magenta: 'text-accent',
}
const backgrounds = {
  red: 'bg-bad-soft',
  yellow: 'bg-warn-soft',
  green: 'bg-good-soft',
  blue: 'bg-info-soft',
  magenta: 'bg-accent-soft',
}

function classOf({ fg, bg, decorations }: Anser.AnserJsonEntry): string | undefined {
  const has = (name: (typeof decorations)[number]) => decorations.includes(name)
  const name = classes(
    textColour(fg, has('dim')),
    background(bg),
    has('bold') && 'font-semibold',
    has('italic') && 'italic',
    has('underline') && 'underline',
    has('strikethrough') && 'line-through',
  )
  return name === '' ? undefined : name
}

function textColour(colour: string | null, dim: boolean): string | undefined {
  const hue = hueOf(colour)
  if (hue === null) return dim ? 'text-ink-faint' : undefined
  return hue === 'grey' ? 'text-ink-soft' : textColours[hue]
}

function background(colour: string | null): string | undefined {
  const hue = hueOf(colour)
  if (hue === null) return undefined
  return hue === 'grey' ? 'bg-sunken' : backgrounds[hue]
}

/** The console colour nearest to "r, g, b". */
function hueOf(colour: string | null): keyof typeof textColours | 'grey' | null {
  const [red = 0, green = 0, blue = 0] = (colour ?? '').split(',').map(Number)
  if (colour === null || Number.isNaN(red + green + blue)) return null
  const max = Math.max(red, green, blue)
  const spread = max - Math.min(red, green, blue)
  if (spread < 48) return 'grey'
  const sixth =
    max === red
      ? ((green - blue) / spread + 6) % 6
      : max === green
        ? (blue - red) / spread + 2
        : (red - green) / spread + 4
  if (sixth < 0.5 || sixth >= 5.5) return 'red'
  if (sixth < 1.4) return 'yellow'
  if (sixth < 2.7) return 'green'
  return sixth < 4.5 ? 'blue' : 'magenta'
}

// Window titles, links and other control sequences that are not text.
const CONTROL_SEQUENCES = /\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[()][A-Z0-9]|\u001b[=>78cDEHM]/g

/** The text that would remain on a screen: a carriage return overwrites its line, as progress bars do. */
function finalScreen(text: string): string {
  const printable = text.includes('\u001b') ? text.replace(CONTROL_SEQUENCES, '') : text
  if (!printable.includes('\r')) return printable
  return printable
    .replaceAll('\r\n', '\n')
    .split('\n')
    .map((line) => line.replace(/\r+$/, '').split('\r').at(-1) ?? '')
    .join('\n')
}
