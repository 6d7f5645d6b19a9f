/** A sentence in which backticks mark commands. A command is not broken over two lines. */
export function CodeText({ children }: { children: string }) {
  return children.split('`').map((part, index) =>
    index % 2 === 0 ? (
      part
    ) : (
      <code key={index} className="font-mono whitespace-nowrap text-ink">
        {part}
      </code>
    ),
  )
}
