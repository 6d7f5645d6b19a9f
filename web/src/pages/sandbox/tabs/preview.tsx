import { useQuery } from '@tanstack/react-query'
import { ExternalLink, Monitor, RotateCw, Smartphone, Tablet } from 'lucide-react'
import { ToggleGroup } from 'radix-ui'
import { type ReactNode, useState } from 'react'
import { errorMessage } from '../../../api/errors'
import { previewLinkQuery } from '../../../api/queries'
import { text } from '../../../timeline/read'
import type { Run } from '../../../timeline/run'
import { Badge } from '../../../ui/badge'
import { Button } from '../../../ui/button'
import { CopyButton } from '../../../ui/copy'
import { Spinner } from '../../../ui/spinner'
import { Empty } from '../../../ui/states'
import { dateAndTime } from '../../../util/time'
import { previewLink } from './preview-link'
import type { Log } from './complete-run'

type Preview = NonNullable<Run['preview']>

/** The page of the agent's dev server. */
export default function PreviewTab({ sandboxId, log }: { sandboxId: string; log: Log }) {
  const preview = log.run.preview
  if (preview === null) {
    return <Empty title="No preview">When the agent starts a web server, its page appears here.</Empty>
  }
  const event = log.events.find(({ seq }) => seq === preview.seq)
  const reason = event?.type === 'preview.failed' ? text(event.data, 'error') : null
  // The key resets the panel on each preview event, so that "Open anyway" does not hide a newer status.
  return <Panel key={preview.seq} sandboxId={sandboxId} preview={preview} at={event?.at ?? null} reason={reason} />
}

interface PanelProps {
  sandboxId: string
  preview: Preview
  at: string | null
  reason: string | null
}

function Panel({ sandboxId, preview, at, reason }: PanelProps) {
  const [anyway, setAnyway] = useState(false)
  if (anyway) return <Server sandboxId={sandboxId} preview={preview} />
  const openAnyway = preview.port !== null && (
    <Button className="mt-4" onClick={() => setAnyway(true)}>
      Open anyway
    </Button>
  )
  switch (preview.status) {
    case 'starting':
      return (
        <p role="status" className="flex items-center justify-center gap-2 px-6 py-16 text-ink-soft">
          <Spinner /> Server starting{preview.port !== null && ` on port ${preview.port}`}…
        </p>
      )
    case 'failed':
      return (
        <Empty title="Preview failed to start">
          <p className="break-words">{reason ?? 'The server did not respond in time.'}</p>
          {openAnyway}
        </Empty>
      )
    case 'stopped':
      return (
        <Empty title="Server stopped">
          {at !== null && (
            <p>
              Last seen <time dateTime={at}>{dateAndTime(at)}</time>
              {preview.port !== null && ` on port ${preview.port}`}.
            </p>
          )}
          <p>The preview returns when the agent restarts the server.</p>
          {openAnyway}
        </Empty>
      )
    case 'ready':
      return <Server sandboxId={sandboxId} preview={preview} />
  }
}

/** The page in a frame, if the provider has a link to it. */
function Server({ sandboxId, preview }: { sandboxId: string; preview: Preview }) {
  const link = useQuery(previewLinkQuery(sandboxId, preview.forwardedPort ?? preview.port))
  if (link.isPending && preview.port !== null) {
    return (
      <p role="status" className="flex items-center justify-center gap-2 px-6 py-16 text-ink-soft">
        <Spinner /> Requesting the link…
      </p>
    )
  }
  if (link.isError) {
    return (
      <Empty title="The link to this server could not be loaded">
        <p>{errorMessage(link.error)}</p>
        <Button className="mt-4" onClick={() => void link.refetch()}>
          Retry
        </Button>
      </Empty>
    )
  }
  if (link.data !== null && link.data !== undefined) {
    return <Page address={link.data.url} framework={preview.framework} />
  }
  return (
    <Empty title="This server cannot be shown here">
      {preview.port !== null && <p>It listens on port {preview.port} inside the sandbox.</p>}
      <p>The provider of this sandbox does not offer preview links.</p>
      {preview.url !== null && <ReportedUrl url={preview.url} />}
    </Empty>
  )
}

/** A URL that the worker chose. */
function ReportedUrl({ url }: { url: string }) {
  const link = previewLink(url, window.location.origin)
  if (link.kind === 'text') return <Address address={link.text} />
  return (
    <p className="mt-2">
      The worker reports a page on{' '}
      <a href={link.url} target="_blank" rel="noreferrer noopener" className="font-mono underline underline-offset-2">
        {new URL(link.url).host}
      </a>
    </p>
  )
}

const widths = { full: '100%', tablet: '768px', phone: '390px' } as const
type Width = keyof typeof widths
const isWidth = (value: string): value is Width => value in widths

function Page({ address, framework }: { address: string; framework: string | null }) {
  const [width, setWidth] = useState<Width>('full')
  // A cross-origin frame cannot be reloaded by script, so it is replaced by a new one.
  const [frame, setFrame] = useState(0)
  const link = previewLink(address, window.location.origin)
  if (link.kind === 'text') {
    return (
      <Empty title="This URL cannot be shown">
        <p>Only HTTP and HTTPS pages can be previewed.</p>
        <Address address={link.text} />
      </Empty>
    )
  }
  return (
    <div className="flex h-full min-h-0 flex-col">
      <div
        role="toolbar"
        aria-label="Preview"
        className="flex flex-wrap items-center gap-2 border-b border-line bg-surface px-3 py-2"
      >
        <span className="min-w-0 flex-1 truncate rounded-md bg-sunken px-2 py-1 font-mono text-xs" title={link.url}>
          {link.url}
        </span>
        <CopyButton text={link.url} what="URL" />
        {framework !== null && <Badge tone="info">{framework}</Badge>}
        <ToggleGroup.Root
          type="single"
          value={width}
          aria-label="Width"
          onValueChange={(value) => isWidth(value) && setWidth(value)}
          className="hidden items-center rounded-md border border-line md:flex"
        >
          <Device value="full" name="Full width" icon={<Monitor size={15} aria-hidden />} />
          <Device value="tablet" name="Tablet width" icon={<Tablet size={15} aria-hidden />} />
          <Device value="phone" name="Phone width" icon={<Smartphone size={15} aria-hidden />} />
        </ToggleGroup.Root>
        <Button variant="quiet" aria-label="Reload preview" onClick={() => setFrame(frame + 1)}>
          <RotateCw size={15} aria-hidden />
        </Button>
        <a
          href={link.url}
          target="_blank"
          rel="noreferrer noopener"
          className="inline-flex min-h-9 items-center gap-1.5 rounded-md px-3 text-sm font-medium text-ink-soft hover:bg-sunken hover:text-ink"
        >
          <ExternalLink size={15} aria-hidden /> Open
        </a>
      </div>
      {link.local && (
        <p className="border-b border-line bg-sunken px-3 py-1.5 text-xs text-ink-soft">
          This URL is reachable only from the machine that runs the sandbox. On other machines the frame stays empty.
        </p>
      )}
      <div className="min-h-0 flex-1 overflow-auto bg-sunken">
        <iframe
          key={frame}
          src={link.url}
          title="Preview of the agent's work"
          sandbox={link.permissions}
          referrerPolicy="no-referrer"
          className="mx-auto block h-full min-h-96 bg-surface"
          style={{ width: widths[width], maxWidth: '100%' }}
        />
      </div>
    </div>
  )
}

function Device({ value, name, icon }: { value: Width; name: string; icon: ReactNode }) {
  return (
    <ToggleGroup.Item
      value={value}
      aria-label={name}
      title={name}
      className="inline-grid size-9 place-items-center text-ink-soft first:rounded-l-md last:rounded-r-md hover:bg-sunken data-[state=on]:bg-accent-soft data-[state=on]:text-accent"
    >
      {icon}
    </ToggleGroup.Item>
  )
}

function Address({ address }: { address: string }) {
  return (
    <p className="mt-2 flex items-center justify-center gap-1 font-mono text-sm break-all">
      {address} <CopyButton text={address} what="URL" />
    </p>
  )
}
