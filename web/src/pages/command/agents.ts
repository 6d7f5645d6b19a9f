import { isThisMachine } from '../../util/hosts'

const AGENTS = ['claude', 'openhands', 'acp:']

/** Only the worker that is part of `sunaba` can run these, and a control plane on this machine is `sunaba dev`. */
const SCRIPTS = ['scripted:hello', 'scripted:refactor', 'scripted:trouble']

/** Agents to suggest for a ticket to the control plane at this host. Any other can be typed. */
export const suggestedAgents = (hostname: string) => (isThisMachine(hostname) ? [...AGENTS, ...SCRIPTS] : AGENTS)
