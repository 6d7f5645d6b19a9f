import { isThisMachine } from '../../util/hosts'

/** Listed by every control plane whose operator has not changed its list. */
const AGENTS = ['claude', 'openhands']

/** Listed by `sunaba dev`, which is what a control plane on this machine is. */
const SCRIPTS = ['scripted:hello', 'scripted:refactor', 'scripted:trouble']

/** Agents to suggest for a ticket to the control plane at this host. Other names of the operator's list can be typed. */
export const suggestedAgents = (hostname: string) => (isThisMachine(hostname) ? [...AGENTS, ...SCRIPTS] : AGENTS)
