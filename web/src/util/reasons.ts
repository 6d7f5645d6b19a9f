/** What this console gives as a reason when somebody ends something. The plane's own reasons are sentences already. */
const sentences: Record<string, string> = {
  marked_failed_by_user: 'Somebody marked it as failed.',
  stopped_by_user: 'Somebody stopped it.',
  cancelled_by_user: 'Somebody cancelled it.',
}

/** Why something ended, in a sentence. */
export const inWords = (reason: string) => sentences[reason] ?? reason
