/** Who did something, as events name them: a person, an operator, or the worker of a sandbox. */
export interface PrincipalRef {
  kind: string
  id: string | null
}

/** A plane with one operator calls it `local` or `operator`, which says nothing. */
const ONLY_OPERATOR: readonly (string | null)[] = [null, 'local', 'operator']

export function principalName({ kind, id }: PrincipalRef): string {
  if (kind === 'operator') return ONLY_OPERATOR.includes(id) ? 'Operator' : `Operator ${id ?? ''}`
  return id ?? kind
}
