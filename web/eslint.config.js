import hooks from 'eslint-plugin-react-hooks'
import { defineConfig, globalIgnores } from 'eslint/config'
import typescript from 'typescript-eslint'

export default defineConfig([
  globalIgnores(['dist', 'node_modules', 'src/api/contract.ts', 'test-results', 'playwright-report']),
  {
    files: ['**/*.{ts,tsx}'],
    extends: [
      typescript.configs.strictTypeChecked,
      typescript.configs.stylisticTypeChecked,
      hooks.configs.flat.recommended,
    ],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      // Concerns the React compiler, which this project does not use.
      'react-hooks/incompatible-library': 'off',
      '@typescript-eslint/no-explicit-any': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/consistent-type-definitions': 'off',
    },
  },
])
