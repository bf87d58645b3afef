import js from '@eslint/js';
import { defineConfig, globalIgnores } from 'eslint/config';
import ts from 'typescript-eslint';

export default defineConfig(
  globalIgnores(['dist/', 'node_modules/', 'src/guard/protocol.ts', 'src/guard/settingNames.ts']),
  js.configs.recommended,
  {
    files: ['src/**/*.ts'],
    extends: [ts.configs.recommendedTypeChecked, ts.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      '@typescript-eslint/switch-exhaustiveness-check': 'error',
    },
  },
  {
    files: ['src/guard/**/*.ts'],
    rules: {
      'no-restricted-imports': ['error', { paths: [{ name: 'vscode', message: 'The library knows no editor.' }] }],
    },
  },
  {
    files: ['**/*.mjs', '**/*.js'],
    rules: { 'no-unused-vars': ['error', { varsIgnorePattern: '^_' }] },
    languageOptions: {
      globals: {
        console: 'readonly',
        process: 'readonly',
        URL: 'readonly',
        setImmediate: 'readonly',
        setTimeout: 'readonly',
        clearTimeout: 'readonly',
        require: 'readonly',
        exports: 'writable',
        module: 'writable',
        __dirname: 'readonly',
        AbortController: 'readonly',
        Buffer: 'readonly',
        URLSearchParams: 'readonly',
        fetch: 'readonly',
        document: 'readonly',
        window: 'readonly',
        MutationObserver: 'readonly',
      },
    },
  },
);
