/** Reason codes that this console sends. Reasons from the control plane are sentences already. */
const sentences: Record<string, string> = {
  marked_failed_by_user: 'Marked as failed by a user.',
  stopped_by_user: 'Stopped by a user.',
  cancelled_by_user: 'Cancelled by a user.',
}

export const describeReason = (reason: string) => sentences[reason] ?? reason
