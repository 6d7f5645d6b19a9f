/** The agent string for a script in e2e/scripts. */
export const script = (name: string) => `scripted:${import.meta.dirname}/../scripts/${name}.jsonl`
